--- Derives the options for exporting a .gguf file from the keys of a configuration.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"
local terminal = require "moonring.base.terminal"

---@class moonring.gguf_file
local gguf_file = {}

local TYPES = { bf16 = "bf16", fp16 = "f16" } -- by a model's dtype; others become f32

local function is_given(config, key)
  local value = config.given[key]
  return value ~= nil and value ~= system.null
end

--- Whether export_dir names a .gguf file. Keys that contradict this end the process with exit code
--- 2.
---@param config moonring.Configuration
---@return boolean
function gguf_file.is_asked(config)
  if not config.export_dir:find "%.gguf$" then
    if is_given(config, "export_gguf_type") and config.export_gguf_type ~= "auto" then
      errors.fail("export_gguf_type: ", config.export_gguf_type, ": expected an export_dir that "
        .. "ends in .gguf, got ", config.export_dir)
    end
    return false
  end
  if config.infer_dtype ~= "auto" then
    errors.fail("infer_dtype: ", config.infer_dtype, ": the numbers of a .gguf file are of "
      .. "export_gguf_type")
  end
  if config.stage == "rm" then
    errors.fail("stage: rm: a value head has no form in a .gguf file: export a folder")
  end
  if is_given(config, "export_size") then
    terminal.note("export_size changes nothing here: a .gguf file is one file\n")
  end
  return true
end

--- The options of Model:save_gguf for a checkpoint. If the file format cannot store some
--- information, prints a note to stderr; fails if it cannot store the model at all.
---@param config moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@return moonring.GgufOptions
function gguf_file.options(config, checkpoint)
  local kind = config.export_gguf_type
  if kind == "auto" then kind = TYPES[checkpoint:dtype()] or "f32" end
  local options = { type = kind, name = config.model_name_or_path:match "([^/:]+)/*$" }
  for _, note in ipairs(checkpoint:check_gguf(config.export_dir, options)) do
    terminal.note(config.export_dir, ": ", note, "\n")
  end
  return options
end

return gguf_file
