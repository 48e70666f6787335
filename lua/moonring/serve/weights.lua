--- Saved weights by tinker:// path: saving, listing, deleting, and finding the weights of a name.
local errors = require "moonring.base.errors"
local facts = require "moonring.serve.facts"
local saved_folders = require "moonring.serve.saved_folders"
local snapshots = require "moonring.serve.snapshots"
local states = require "moonring.serve.states"
local system = require "moonring.native.system"
local tinker_paths = require "moonring.serve.tinker_paths"

---@class moonring.serve.weights
local weights = {}

--- Weights to sample from.
---@class moonring.serve.Weights
---@field id string the name they were asked for by
---@field model moonring.Model
---@field base moonring.serve.Base

-- How many saved weights stay loaded for sampling: adapters, and whole models.
local KEPT = { adapters = 8, whole = 1 }

--- How weights are saved.
---@class moonring.serve.Saving
---@field kind moonring.serve.PathKind
---@field name string
---@field overwrite boolean whether saved weights of this name are replaced
---@field moments boolean whether the optimizer's state is saved too
---@field user_metadata? table

-- Decides what to do with a folder that may exist: "write" it; "keep" what is there; "taken":
-- refuse. A request that was interrupted finds its own folder, or none.
local function decide(folder, state, saving)
  local there = saved_folders.read(folder)
  if not there or saving.overwrite then return "write" end
  local is_own = there.model_id == state.model_id and there.seq == state.seq
  return is_own and "keep" or "taken"
end

--- Saves a model's weights under a name. Collective over all ranks. Errors: ALREADY_EXISTS if the
--- name is taken and overwrite is false.
---@param service moonring.Service
---@param trained moonring.serve.Trained
---@param saving moonring.serve.Saving
---@param job moonring.serve.Job
---@return string path tinker://
function weights.save(service, trained, saving, job)
  tinker_paths.check_name(saving.name)
  local path = { model = trained.id, kind = saving.kind, name = saving.name }
  local folder = tinker_paths.folder(service.folder, path)
  local text = tinker_paths.text(path.model, path.kind, path.name)
  local state = trained:saved_state(job.seq)
  state.user_metadata = saving.user_metadata
  local decision = decide(folder, state, saving)
  service.mesh:barrier() -- before rank 0 changes the folder
  if decision == "taken" then
    errors.raise("ALREADY_EXISTS", "path: ", text, " is saved already; expected another name, or ",
      "overwrite: true")
  end
  if decision == "write" then
    saved_folders.write(service.mesh, folder, trained.model, state,
      saving.moments and trained:moments() or nil)
    weights.forget(service, text)
  end
  weights.publish(service, path)
  return text
end

--- Publishes the facts of saved weights.
---@param service moonring.Service
---@param path moonring.serve.TinkerPath
function weights.publish(service, path)
  if not service.door then return end
  local folder = tinker_paths.folder(service.folder, path)
  local state = saved_folders.read(folder)
  if state then facts.saved(service, path, state, saved_folders.bytes(folder)) end
end

--- Publishes the facts of all models, snapshots and saved weights that output_dir has from earlier
--- processes. Folders that are damaged are named in a line on the terminal.
---@param service moonring.Service
function weights.publish_all(service)
  states.publish_all(service)
  if not service.door then return end
  for _, kind in ipairs(tinker_paths.KINDS) do
    local root = service.folder .. "/" .. kind
    for _, model in ipairs(system.list(root)) do
      for _, name in ipairs(saved_folders.list(root .. "/" .. model)) do
        local ok, why = pcall(function()
          local path = tinker_paths.parse(tinker_paths.text(model, kind, name))
          weights.publish(service, path)
          local state = saved_folders.read(tinker_paths.folder(service.folder, path))
          if kind == "weights" then facts.run(service, model, state.recipe) end
        end)
        if not ok then service:note(errors.words(why)) end
      end
    end
  end
end

--- The state of saved weights, and their folder. Errors: INVALID_ARGUMENT for a malformed path;
--- NOT_FOUND, with the nearest name.
---@param service moonring.Service
---@param text string tinker://
---@return moonring.serve.SavedState
---@return string folder
function weights.find(service, text)
  local path = tinker_paths.parse(text)
  local folder = tinker_paths.folder(service.folder, path)
  local state = saved_folders.read(folder)
  if state then return state, folder end
  local names = saved_folders.list(service.folder .. "/" .. path.kind .. "/" .. path.model)
  errors.raise("NOT_FOUND", "path: no saved weights ", text, system.did_you_mean(path.name, names),
    #names > 0 and "; this model has " .. table.concat(names, ", ") or "")
end

--- Deletes saved weights. Collective over all ranks. Errors: as `find`.
---@param service moonring.Service
---@param text string tinker://
function weights.delete(service, text)
  local _, folder = weights.find(service, text)
  saved_folders.remove(service.mesh, folder)
  weights.forget(service, text)
  facts.removed(service, tinker_paths.parse(text))
end

--- Forgets weights that were loaded for sampling, since their folder has changed.
---@param service moonring.Service
---@param text string tinker://
function weights.forget(service, text)
  if service.loaded then service.loaded[text] = nil end
end

-- Frees the weights that were used longest ago, beyond those that stay loaded.
local function make_room(service, is_adapter)
  local most, of_kind = is_adapter and KEPT.adapters or KEPT.whole, {}
  for text, each in pairs(service.loaded) do
    if (each.model:base() ~= nil) == is_adapter then of_kind[#of_kind + 1] = text end
  end
  table.sort(of_kind, function(a, b) return service.loaded[a].used < service.loaded[b].used end)
  for i = 1, #of_kind - most + 1 do service.loaded[of_kind[i]] = nil end
  if #of_kind >= most then collectgarbage() end -- requests that still use them keep them
end

-- Loads saved weights to sample from, or finds them loaded.
local function of_path(service, text)
  service.loaded, service.uses = service.loaded or {}, (service.uses or 0) + 1
  local found = service.loaded[text]
  if not found then
    local state, folder = weights.find(service, text)
    local base = saved_folders.base(service, state)
    make_room(service, state.recipe.rank > 0)
    found = { model = saved_folders.load(folder, state, base, false), base = base }
    service.loaded[text] = found
  end
  found.used = service.uses
  return { id = text, model = found.model, base = found.base }
end

--- The weights of a name: a base model's, a tinker:// path, or the sampling_session_id of a
--- snapshot. Collective over all ranks. Errors: NOT_FOUND, with the nearest name.
---@param service moonring.Service
---@param name string
---@return moonring.serve.Weights
function weights.of(service, name)
  if tinker_paths.is_path(name) then return of_path(service, name) end
  local snapshot = service.samplers[name]
  if snapshot then return snapshots.weights(service, snapshot) end
  local base = service.bases:open(name)
  return { id = name, model = base.model, base = base }
end

return weights
