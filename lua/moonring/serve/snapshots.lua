--- Snapshots of a model's weights for one sampling session: later steps do not change them. The
-- latest used are in memory, others in the folder snapshots; beyond a limit, those that were used
-- longest ago are dropped.
local errors = require "moonring.base.errors"
local facts = require "moonring.serve.facts"
local saved_folders = require "moonring.serve.saved_folders"

---@class moonring.serve.snapshots
local snapshots = {}

-- How many snapshots of a model are in memory, and how many there are at all: for adapters, and for
-- models of which all weights are trained.
local IN_MEMORY = { adapters = 4, whole = 1 }
local MOST = { adapters = 64, whole = 8 }

--- A snapshot.
---@class moonring.serve.Sampler
---@field id string sampling_session_id
---@field state moonring.serve.SavedState
---@field model? moonring.Model nil if it is on disk, or dropped
---@field is_on_disk? boolean
---@field is_dropped? boolean
---@field used integer number of its last use; all uses of weights are counted from 1

local function folder_of(service, id) return service.folder .. "/snapshots/" .. id end

local function limit(limits, sampler)
  return sampler.state.recipe.rank > 0 and limits.adapters or limits.whole
end

local function use(service, sampler)
  service.uses = (service.uses or 0) + 1
  sampler.used = service.uses
end

-- The snapshots of a model for which `has` is true, from the one that was used longest ago.
local function of_model(service, model_id, has)
  local list = {}
  for _, each in pairs(service.samplers) do
    if each.state.model_id == model_id and not each.is_dropped and has(each) then
      list[#list + 1] = each
    end
  end
  table.sort(list, function(a, b) return a.used < b.used end)
  return list
end

--- Writes a snapshot to disk, if it is not there yet. Collective over all ranks.
---@param service moonring.Service
---@param sampler moonring.serve.Sampler
function snapshots.store(service, sampler)
  if sampler.is_on_disk then return end
  saved_folders.write(service.mesh, folder_of(service, sampler.id), sampler.model, sampler.state)
  sampler.is_on_disk = true
end

--- Writes all of a model's snapshots to disk that are not there yet. Collective over all ranks.
---@param service moonring.Service
---@param model_id string
function snapshots.store_all(service, model_id)
  local live = of_model(service, model_id, function(each) return not each.is_on_disk end)
  for _, each in ipairs(live) do snapshots.store(service, each) end
end

local function drop(service, sampler)
  if sampler.is_on_disk then saved_folders.remove(service.mesh, folder_of(service, sampler.id)) end
  sampler.model, sampler.is_on_disk, sampler.is_dropped = nil, nil, true
end

-- Moves snapshots to disk, and drops some, until a model's are within the limits.
local function settle(service, model_id)
  local all = of_model(service, model_id, function() return true end)
  for i = 1, #all - limit(MOST, all[#all]) do drop(service, all[i]) end
  local held = of_model(service, model_id, function(each) return each.model ~= nil end)
  local surplus = #held - limit(IN_MEMORY, held[#held])
  for i = 1, surplus do
    snapshots.store(service, held[i])
    held[i].model = nil
  end
  if surplus > 0 then collectgarbage() end -- requests that still use them keep them
end

--- Takes a snapshot. One that is there already, after a restart, stays. Collective over all ranks.
---@param service moonring.Service
---@param trained moonring.serve.Trained
---@param id string sampling_session_id
---@param seq integer the request
function snapshots.take(service, trained, id, seq)
  local known = service.samplers[id]
  if known and not known.is_dropped then return use(service, known) end
  local sampler = { id = id, model = trained:copy(), state = trained:saved_state(seq) }
  sampler.state.sampler = id
  service.samplers[id] = sampler
  use(service, sampler)
  settle(service, trained.id)
  facts.sampler(service, id, trained.recipe)
end

--- The weights of a snapshot. Collective over all ranks. Errors: NOT_FOUND for one that was
--- dropped.
---@param service moonring.Service
---@param sampler moonring.serve.Sampler
---@return moonring.serve.Weights
function snapshots.weights(service, sampler)
  if sampler.is_dropped then
    errors.raise("NOT_FOUND", "sampling session ", sampler.id, ": its weights were dropped, as ",
      "only the ", limit(MOST, sampler), " snapshots of a model that were used last are kept; ",
      "save_weights_for_sampler takes a new one, and one with a name stays")
  end
  local base = saved_folders.base(service, sampler.state)
  use(service, sampler)
  if not sampler.model then
    sampler.model = saved_folders.load(folder_of(service, sampler.id), sampler.state, base, false)
    local model = sampler.model
    settle(service, sampler.state.model_id)
    return { id = sampler.id, model = model, base = base }
  end
  return { id = sampler.id, model = sampler.model, base = base }
end

--- Finds the snapshots on disk when the service starts.
---@param service moonring.Service
function snapshots.restore(service)
  local root = service.folder .. "/snapshots"
  for _, id in ipairs(saved_folders.list(root)) do
    local ok, state = pcall(saved_folders.read, root .. "/" .. id)
    if ok and state and state.sampler == id then
      local sampler = { id = id, state = state, is_on_disk = true }
      service.samplers[id] = sampler
      use(service, sampler)
      facts.sampler(service, id, state.recipe)
    else
      service:note(root .. "/" .. id .. ": not a snapshot: it is left alone")
    end
  end
end

--- Frees the samplers of a session, and removes its snapshots. Collective over all ranks.
---@param service moonring.Service
---@param session string
function snapshots.finish(service, session)
  local ids = {}
  for id in pairs(service.samplers) do
    if id:sub(1, #session + 1) == session .. ":" then ids[#ids + 1] = id end
  end
  table.sort(ids) -- the same order on every rank
  for _, id in ipairs(ids) do
    local sampler = service.samplers[id]
    if sampler.is_on_disk then saved_folders.remove(service.mesh, folder_of(service, id)) end
    service.samplers[id] = nil
    service:withdraw("sampler", id)
  end
end

return snapshots
