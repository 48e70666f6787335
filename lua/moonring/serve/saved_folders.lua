--- Folders of saved weights. A folder is complete or absent: rank 0 writes FOLDER.partial, flushes
-- it, and renames it. PEFT opens the folder of an adapter, Transformers that of a whole model; both
-- have state.json, and optimizer.safetensors if the optimizer's state is saved.
local errors = require "moonring.base.errors"
local model = require "moonring.native.model"
local on_first_rank = require "moonring.base.first_rank"
local policy = require "moonring.model.policy"
local safetensors = require "moonring.native.safetensors"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.serve.saved_folders
local saved_folders = {}

local STATE, MOMENTS = "state.json", "optimizer.safetensors"
local PARTIAL = ".partial" -- the suffix of a folder that is being written
local FORMAT = 1           -- of state.json

--- What state.json says of a folder.
---@class moonring.serve.SavedState
---@field format integer
---@field model_id string the model that was saved
---@field seq integer the request that saved it
---@field recipe moonring.serve.Recipe
---@field base_name string the base model's first name, where recipe.base_model is an alias
---@field steps integer
---@field time string when it was saved, UTC
---@field bytes? integer of all files
---@field user_metadata? table of the request that saved it
---@field sampler? string a snapshot's sampling_session_id

--- The present time as the API writes it: "2026-01-01T00:00:00Z".
---@return string
function saved_folders.now() return os.date "!%Y-%m-%dT%H:%M:%SZ" --[[@as string]] end

local function write(folder, weights, moments, state)
  local draft = folder .. PARTIAL
  system.remove(draft)
  system.make_folder(draft)
  weights:save(draft, { flush = false })
  if moments then
    safetensors.write(draft .. "/" .. MOMENTS, moments, { flush = false })
  end
  state.format, state.time = FORMAT, saved_folders.now()
  system.write(draft .. "/" .. STATE, system.json_encode(state, 2) .. "\n")
  trainer.publish_checkpoint({ draft = draft, folder = folder, names = system.list(draft),
    step = state.steps }):wait()
end

--- Saves weights; a folder that is there is replaced. Collective over all ranks. Errors: those of
--- the file system.
---@param mesh moonring.Mesh
---@param folder string
---@param weights moonring.Model
---@param state moonring.serve.SavedState
---@param moments? table<string, moonring.Tensor> the optimizer's state, if it is saved
function saved_folders.write(mesh, folder, weights, state, moments)
  on_first_rank(mesh, function() write(folder, weights, moments, state) end)
end

--- What state.json says; nil if there is no such folder. Errors: DATA_LOSS if it is not readable.
---@param folder string
---@return moonring.serve.SavedState?
function saved_folders.read(folder)
  if not system.exists(folder .. "/" .. STATE) then return nil end
  local path = folder .. "/" .. STATE
  local ok, state = pcall(system.json_decode, system.read(path), path)
  if not ok or type(state) ~= "table" or state.format ~= FORMAT then
    errors.raise("DATA_LOSS", path, ": expected a state of format ", FORMAT, ok and "" or "; ",
      ok and "" or errors.words(state))
  end
  return state
end

--- The names of the whole folders in a folder.
---@param folder string
---@return string[]
function saved_folders.list(folder)
  local names = {}
  for _, name in ipairs(system.list(folder)) do
    local whole = not name:find "%.partial$" and not name:find "%.removed$"
    if whole and system.exists(folder .. "/" .. name .. "/" .. STATE) then
      names[#names + 1] = name
    end
  end
  return names
end

--- The number of bytes of a folder's files, as its manifest says.
---@param folder string
---@return integer
function saved_folders.bytes(folder)
  local ok, manifest = pcall(function()
    return system.json_decode(system.read(folder .. "/manifest.json"))
  end)
  local sum = 0
  for _, file in pairs(ok and manifest.files or {}) do sum = sum + file.bytes end
  return sum
end

--- Removes a folder, if it is there. Collective over all ranks.
---@param mesh moonring.Mesh
---@param folder string
function saved_folders.remove(mesh, folder)
  mesh:barrier() -- no rank reads it any more
  on_first_rank(mesh, function() trainer.remove_checkpoint(folder) end)
end

--- The base model that saved weights need. Errors: NOT_FOUND, if the service has no such model.
---@param service moonring.Service
---@param state moonring.serve.SavedState
---@return moonring.serve.Base
function saved_folders.base(service, state)
  local given = state.recipe.base_model
  return service.bases:open(service.bases:has(given) and given or state.base_name)
end

-- The configuration of a base for a folder with all weights, into which adapters are merged.
local function without_adapters(c)
  return setmetatable({}, { __index = function(_, key)
    return key ~= "adapter_name_or_path" and c[key] or nil
  end })
end

--- Loads saved weights. Every rank reads the folder.
---@param folder string
---@param state moonring.serve.SavedState
---@param base moonring.serve.Base
---@param trains boolean false: all weights are loaded frozen, to sample from
---@return moonring.Model
function saved_folders.load(folder, state, base, trains)
  if state.recipe.rank > 0 then return model.adapt(base.model, { path = folder, dropout = 0 }) end
  local c, checkpoint = without_adapters(base.config), model.open(folder)
  return trains and policy.whole(c, checkpoint) or policy.frozen(c, checkpoint)
end

--- The optimizer's state in a folder; nil if it has none.
---@param folder string
---@return table<string, moonring.Tensor>?
function saved_folders.moments(folder)
  local path = folder .. "/" .. MOMENTS
  return system.exists(path) and safetensors.read(path) or nil
end

return saved_folders
