--- Models as scripts see them: the native functions of model/, and builtin:NAME as a path. The rest
-- of the room: policy.lua (the models that a configuration names).
local native = require "moonring.native.model"
local system = require "moonring.native.system"

local model = {}
for name, bound in pairs(native) do model[name] = bound end

local function resolved(path)
  local builtin = path:match "^builtin:(.*)$"
  return builtin and system.builtin(builtin) or path
end

--- Opens a checkpoint: a Hugging Face folder, a .gguf file, or builtin:NAME.
function model.open(path) return native.open(resolved(path)) end

--- The same, or a config.json without its weights.
function model.open_config(path) return native.open_config(resolved(path)) end

--- What a tokenizer and its templates are made of, of a model whose weights need not be there: it
-- has a checkpoint's `path` and `companion`, and nothing else.
function model.open_tokenizer(path)
  local folder = resolved(path)
  local files = native.companions(folder)
  return {
    path = function() return folder end,
    companion = function(_, name) return files[name] end,
  }
end

return model
