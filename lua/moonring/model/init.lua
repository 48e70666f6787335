--- Models as scripts see them: the native functions of model/, and builtin:NAME as a path. The rest
-- of the room: policy.lua (the models that a configuration names).
local errors = require "moonring.errors"
local native = require "moonring.native.model"
local system = require "moonring.native.system"

---@class moonring.model: moonring.native.model
local model = {}
for name, bound in pairs(native) do model[name] = bound end

local function resolved(path)
  local builtin = path:match "^builtin:(.*)$"
  return builtin and system.builtin(builtin) or path
end

--- Opens a checkpoint: a Hugging Face folder, a .gguf file or a folder with one, or builtin:NAME.
--- Reads headers alone and checks that every weight is there with its shape. Errors: NOT_FOUND,
--- INVALID_ARGUMENT (a damaged file, a wrong shape), UNIMPLEMENTED (a kind of model that is not
--- supported yet).
---@param path string
---@return moonring.Checkpoint
function model.open(path) return native.open(resolved(path)) end

--- A folder with config.json whose weights are made afresh by it and a seed, as Transformers makes
--- them, whatever files of weights it has: the same on every rank. Errors: as `open`, but for
--- weights; UNIMPLEMENTED of a model whose text half alone is trained.
---@param path string
---@param seed integer
---@return moonring.Checkpoint
function model.open_fresh(path, seed) return native.open_fresh(resolved(path), seed) end

--- The base model of an adapter's folder, as its adapter_config.json names it: a path, from here or
--- from the folder. Errors: INVALID_ARGUMENT where it names none, or it is not there.
---@param folder string
---@return string path
function model.base_of_adapter(folder)
  local file = folder .. "/adapter_config.json"
  local told = system.json_decode(system.read(file), file)
  local base = type(told) == "table" and told.base_model_name_or_path
  if type(base) ~= "string" then
    errors.fail(file, ": wanted base_model_name_or_path, the model that it adapts")
  end
  for _, path in ipairs { base, folder .. "/" .. base } do
    if base:find "^builtin:" or system.exists(path) then return path end
  end
  errors.fail(file, ": its base model '", base, "' is not here; model_name_or_path=DIR says where")
end

--- What a model is, whether its weights are there or not: a folder with config.json, or such a file
--- by its own name, is enough; else as `open`.
---@param path string
---@return moonring.Checkpoint
function model.open_config(path) return native.open_config(resolved(path)) end

--- The tokenizer's files of a model, whose weights and config.json need not be there: of a folder,
--- a .gguf file or builtin:NAME. Errors: NOT_FOUND where nothing is there.
---@param path string
---@return moonring.TokenizerFiles
function model.open_tokenizer(path)
  local folder = resolved(path)
  local files = native.companions(folder)
  return {
    path = function() return folder end,
    companion = function(_, name) return files[name] end,
  }
end

return model
