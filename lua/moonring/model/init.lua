--- Models as scripts see them: the native functions of model/, with builtin:NAME and names on a hub
-- as paths. The rest of the room: policy.lua (the models that a configuration names).
local errors = require "moonring.base.errors"
local hub = require "moonring.hub"
local native = require "moonring.native.model"
local system = require "moonring.native.system"

---@class moonring.model: moonring.native.model
local model = {}
for name, bound in pairs(native) do model[name] = bound end

-- Where a path leads, and the name where it is one on a hub.
local function resolved(path, want, of)
  local builtin = path:match "^builtin:(.*)$"
  if builtin then return system.builtin(builtin) end
  return hub.locate(path, want, of)
end

local function named(checkpoint, name)
  if name then checkpoint:set_name(name) end
  return checkpoint
end

--- Where a model or an adapter lies: a path as it is, or what of a name on a hub is wanted,
--- downloaded where it was not there (moonring.hub.locate).
---@param path string
---@param of? moonring.HubOptions such as a configuration
---@return string
function model.locate(path, of) return (resolved(path, "model", of)) end

--- Where adapters lie: folders in PEFT's form, or names on a hub.
---@param paths? string[]
---@param of? moonring.HubOptions
---@return string[]?
function model.adapters(paths, of)
  local found = paths and {}
  for i, path in ipairs(paths or {}) do found[i] = resolved(path, "adapter", of) end
  return found
end

--- Opens a checkpoint: a Hugging Face folder, a .gguf file or a folder with one, builtin:NAME, or a
--- name on a hub. Reads headers alone and checks that every weight is there with its shape. Errors:
--- NOT_FOUND, INVALID_ARGUMENT (a damaged file, a wrong shape), UNIMPLEMENTED (a kind of model that
--- is not supported yet), and as moonring.hub.locate.
---@param path string
---@param of? moonring.HubOptions
---@return moonring.Checkpoint
function model.open(path, of)
  local place, name = resolved(path, "model", of)
  return named(native.open(place), name)
end

--- A folder with config.json whose weights are made afresh by it and a seed, as Transformers makes
--- them, whatever files of weights it has: the same on every rank. Errors: as `open`, but for
--- weights; UNIMPLEMENTED of a model whose text half alone is trained.
---@param path string
---@param seed integer
---@param of? moonring.HubOptions
---@return moonring.Checkpoint
function model.open_fresh(path, seed, of)
  local place, name = resolved(path, "fresh", of)
  return named(native.open_fresh(place, seed), name)
end

--- The base model of an adapter's folder, as its adapter_config.json names it: a path, from here or
--- from the folder, or a name on a hub. An adapter that was fetched from a hub may only give a name
--- on a hub or builtin:NAME. Errors: INVALID_ARGUMENT where it names none, or a path that is not
--- there.
---@param folder string
---@return string path
function model.base_of_adapter(folder)
  local file = folder .. "/adapter_config.json"
  local told = system.json_decode(system.read(file), file)
  local base = type(told) == "table" and told.base_model_name_or_path
  if type(base) ~= "string" then
    errors.fail(file, ": wanted base_model_name_or_path, the model that it adapts")
  end
  local commit = folder:match "/models%-%-[^/]+/[^/]+/(%x+)/*$"
  local fetched = commit and #commit == 40 -- in a hub's cache
  if fetched and not hub.name_of(base) and not base:find "^builtin:" then
    errors.fail(file, ": its base model '", base, "' is a path, and the adapter comes from a hub; "
      .. "model_name_or_path=DIR says where")
  end
  for _, path in ipairs { base, folder .. "/" .. base } do
    if base:find "^builtin:" or system.exists(path) then return path end
  end
  if hub.name_of(base) then return base end
  errors.fail(file, ": its base model '", base, "' is not here; model_name_or_path=DIR says where")
end

--- What a model is, whether its weights are there or not: a folder with config.json, or such a file
--- by its own name, is enough; else as `open`.
---@param path string
---@param of? moonring.HubOptions
---@return moonring.Checkpoint
function model.open_config(path, of)
  local place, name = resolved(path, "config", of)
  return named(native.open_config(place), name)
end

--- The tokenizer's files of a model, whose weights and config.json need not be there: of a folder,
--- a .gguf file, builtin:NAME or a name on a hub. Errors: NOT_FOUND where nothing is there.
---@param path string
---@param of? moonring.HubOptions
---@return moonring.TokenizerFiles
function model.open_tokenizer(path, of)
  local folder = resolved(path, "tokenizer", of)
  local files = native.companions(folder)
  return {
    path = function() return folder end,
    companion = function(_, name) return files[name] end,
  }
end

return model
