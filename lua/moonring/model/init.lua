--- `moonring.model`: the native functions for models. In addition to paths they accept builtin:NAME
-- and names on a hub. policy.lua in this folder loads the models that a configuration names.
local errors = require "moonring.base.errors"
local hub = require "moonring.hub"
local interrupted = require "moonring.model.interrupted"
local native = require "moonring.native.model"
local system = require "moonring.native.system"

---@class moonring.model: moonring.native.model
local model = {}
for name, bound in pairs(native) do model[name] = bound end

-- Resolves a path, a hub name or builtin:NAME to a local path. Also returns the name if it came
-- from a hub.
local function resolved(path, want, of)
  local builtin = path:match "^builtin:(.*)$"
  if builtin then return system.builtin(builtin) end
  local place, name = hub.locate(path, want, of)
  local is_key = of and of.model_name_or_path == path and "model_name_or_path"
  interrupted.refuse(place, want, want == "adapter" and "adapter_name_or_path" or is_key or nil)
  return place, name
end

local function named(checkpoint, name)
  if name then checkpoint:set_name(name) end
  return checkpoint
end

--- Resolves a model or adapter to its local path. A name on a hub is downloaded if it is not cached
--- (moonring.hub.locate).
---@param path string
---@param of? moonring.HubOptions such as a configuration
---@return string
function model.locate(path, of) return (resolved(path, "model", of)) end

--- The local folders of adapters in PEFT's format, given as folders or names on a hub.
---@param paths? string[]
---@param of? moonring.HubOptions
---@return string[]?
function model.adapters(paths, of)
  local found = paths and {}
  for i, path in ipairs(paths or {}) do found[i] = resolved(path, "adapter", of) end
  return found
end

--- Opens a checkpoint: a Hugging Face folder, a .gguf file or a folder with one, builtin:NAME, or a
--- name on a hub. Reads only headers, and checks that all weights exist with the right shapes.
--- Errors: NOT_FOUND, INVALID_ARGUMENT (a damaged file, a wrong shape), UNIMPLEMENTED (an
--- unsupported architecture), and those of moonring.hub.locate.
---@param path string
---@param of? moonring.HubOptions
---@return moonring.Checkpoint
function model.open(path, of)
  local place, name = resolved(path, "model", of)
  return named(native.open(place), name)
end

--- Opens a folder with config.json as a checkpoint whose weights are initialized randomly, as
--- Transformers does; files of weights are ignored. The weights depend only on the config and the
--- seed, and are the same on every rank. Errors: those of `open` except for weights; UNIMPLEMENTED
--- for a model of which only the text part is supported.
---@param path string
---@param seed integer
---@param of? moonring.HubOptions
---@return moonring.Checkpoint
function model.open_fresh(path, seed, of)
  local place, name = resolved(path, "fresh", of)
  return named(native.open_fresh(place, seed), name)
end

--- The base model that an adapter's adapter_config.json names: a path, relative to the working
--- directory or to the adapter's folder, or a name on a hub. An adapter downloaded from a hub may
--- only refer to a name on a hub or builtin:NAME. Errors: INVALID_ARGUMENT if there is no base
--- model or its path does not exist.
---@param folder string
---@return string path
function model.base_of_adapter(folder)
  local file = folder .. "/adapter_config.json"
  local settings = system.json_decode(system.read(file), file)
  local base = type(settings) == "table" and settings.base_model_name_or_path
  if type(base) ~= "string" then
    errors.fail(file, ": expected base_model_name_or_path, the model that it adapts")
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

--- Opens the configuration of a model, whether its weights are present or not. The path may be a
--- folder with config.json, such a file, or anything that `open` accepts.
---@param path string
---@param of? moonring.HubOptions
---@return moonring.Checkpoint
function model.open_config(path, of)
  local place, name = resolved(path, "config", of)
  return named(native.open_config(place), name)
end

--- Opens the tokenizer files of a folder, a .gguf file, builtin:NAME or a name on a hub; weights
--- and config.json may be absent. Errors: NOT_FOUND.
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
