--- States of trained models on disk, from which they continue after a restart: states/MODEL/SEQ has
-- weights, moments and step count after the request SEQ. Requests up to it need not be run again. A
-- state is saved after a step of the optimizer, if the requests since the last state took so long
-- that saving costs little beside them, and after weights were loaded.
local errors = require "moonring.base.errors"
local facts = require "moonring.serve.facts"
local saved_folders = require "moonring.serve.saved_folders"
local snapshots = require "moonring.serve.snapshots"
local system = require "moonring.native.system"
local tinker_paths = require "moonring.serve.tinker_paths"
local trained_models = require "moonring.serve.trained"

---@class moonring.serve.states
local states = {}

local LEAST = 20  -- seconds of computation between two states
local SHARE = 20  -- and at least this many times the seconds of saving the last one

local function folder_of(service, id, seq)
  return ("%s/states/%s%s"):format(service.folder, id, seq and "/" .. seq or "")
end

-- The numbers of a model's whole states, the newest first.
local function saved_of(service, id)
  local numbers = {}
  for _, name in ipairs(saved_folders.list(folder_of(service, id))) do
    numbers[#numbers + 1] = tonumber(name)
  end
  table.sort(numbers, function(a, b) return a > b end)
  return numbers
end

--- Saves a model's state, and removes older ones. Collective over all ranks.
---@param service moonring.Service
---@param trained moonring.serve.Trained
---@param seq integer the last request that the state contains
function states.save(service, trained, seq)
  local began = system.clock()
  snapshots.store_all(service, trained.id) -- the requests that took them will not be run again
  saved_folders.write(service.mesh, folder_of(service, trained.id, seq), trained.model,
    trained:saved_state(seq), trained:moments())
  for _, each in ipairs(saved_of(service, trained.id)) do
    if each ~= seq then saved_folders.remove(service.mesh, folder_of(service, trained.id, each)) end
  end
  trained.seconds, trained.last_seconds = 0, system.clock() - began
  if service.door then service.door:saved(trained.id, seq) end
end

--- Asks `save_due` to save a model's state after the current request, which made a step of the
--- optimizer or loaded weights.
---@param service moonring.Service
---@param trained moonring.serve.Trained
---@param seq integer the request
---@param always? boolean whether it is saved however recent the last one is
function states.want(service, trained, seq, always)
  service.wanted_state = { trained = trained, seq = seq, always = always }
end

--- Saves the state that the last request asked for (`want`), if it is due. Call it when the request
--- has its result: a request in a saved state is not run again. Collective over all ranks.
---@param service moonring.Service
function states.save_due(service)
  local wanted = service.wanted_state
  if not wanted then return end
  service.wanted_state = nil
  local trained = wanted.trained
  local due = wanted.always or trained.seconds > math.max(LEAST, SHARE * trained.last_seconds)
  if service.mesh:gather_numbers(due and 1 or 0)[1] == 1 then
    states.save(service, trained, wanted.seq)
  end
end

-- Loads a model from its state.
local function load(service, id, folder)
  local state = saved_folders.read(folder)
  local base = saved_folders.base(service, state)
  local trained = trained_models.new(service, id, base, state.recipe,
    saved_folders.load(folder, state, base, true))
  trained:load_moments(saved_folders.moments(folder) or {}, state.steps)
  return trained
end

--- The trained model of an id; one from before a restart is loaded at the first call. Errors:
--- NOT_FOUND.
---@param service moonring.Service
---@param id any model_id
---@return moonring.serve.Trained
function states.model(service, id)
  tinker_paths.check_model(id)
  local found = service.models[id]
  if found then return found end
  local folder = service.dormant and service.dormant[id]
  if not folder then
    errors.raise("NOT_FOUND", "model_id: no model ", id, "; its session may have ended: ",
      "load_weights of saved weights makes a new one")
  end
  service.models[id], service.dormant[id] = load(service, id, folder), nil
  return service.models[id]
end

--- Finds the states and snapshots that an earlier process has left. Models are loaded when they are
--- first used.
---@param service moonring.Service
---@return table<string, integer> of each model the last request in its state
function states.restore(service)
  local found = {}
  service.dormant = {}
  for _, id in ipairs(system.list(service.folder .. "/states")) do
    local seq = saved_of(service, id)[1]
    if seq then
      service.dormant[id], found[id] = folder_of(service, id, seq), seq
    end
  end
  return found
end

--- Publishes what clients may ask of the models and snapshots that an earlier process has left.
---@param service moonring.Service
function states.publish_all(service)
  snapshots.restore(service)
  for id, folder in pairs(service.dormant) do
    local ok, why = pcall(function()
      local state = saved_folders.read(folder)
      facts.model(service, { id = id, recipe = state.recipe,
        base = saved_folders.base(service, state) })
    end)
    if not ok then service:note(folder .. ": " .. errors.words(why)) end
  end
end

--- Frees the models of a session, and removes their states. Collective over all ranks.
---@param service moonring.Service
---@param session string
function states.finish(service, session)
  local ids, seen = {}, {}
  for _, list in ipairs { service.models, service.dormant or {} } do
    for id in pairs(list) do
      if id:sub(1, #session + 1) == session .. ":" and not seen[id] then
        seen[id], ids[#ids + 1] = true, id
      end
    end
  end
  table.sort(ids) -- the same order on every rank
  for _, id in ipairs(ids) do
    if service.models[id] then service.models[id]:close() end
    service.models[id] = nil
    if service.dormant then service.dormant[id] = nil end
    saved_folders.remove(service.mesh, folder_of(service, id))
    service:withdraw("model", id)
  end
end

return states
