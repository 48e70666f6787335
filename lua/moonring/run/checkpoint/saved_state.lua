--- The files in a checkpoint that a run needs to resume, in addition to the model:
--   training_state.json       the step, the configuration, the state of each component of the run
--   part_tensors.safetensors  the tensors in these states, if there are any
--   data_state                the position in the data
--   states-*.safetensors      weights and optimizer state; one file per shard, and with local_steps
--                             (choices/rounds.lua) per sp group, too
--   outer-*.safetensors       with local_steps: the weights that all groups agreed on at the last
--                             synchronization, and the state of the outer optimizer
local errors = require "moonring.base.errors"
local safetensors = require "moonring.native.safetensors"
local state_shape = require "moonring.run.checkpoint.state_shape"
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"
local trainer = require "moonring.native.trainer"

---@class moonring.saved_state
local saved_state = {}

local STATE, TENSORS, DATA = "training_state.json", "part_tensors.safetensors", "data_state"
local STATES = "states-%05d-of-%05d.safetensors"
local OF_GROUP, OUTER = "states-%05d-of-%05d-group-%05d-of-%05d.safetensors",
  "outer-%05d-of-%05d.safetensors"

-- Replaces null by NaN. JSON cannot represent NaN, so it was written as null, and no other value of
-- these states is null.
local function with_nan(value)
  if value == system.null then return 0 / 0 end
  if type(value) ~= "table" then return value end
  for name, each in pairs(value) do value[name] = with_nan(each) end
  return value
end

-- Copies a state without its tensors, which are put into the table `tensors`, by their path in the
-- state.
local function without_tensors(value, place, tensors)
  if type(value) == "userdata" then
    tensors[place] = value
    return { tensor = place }
  end
  if type(value) ~= "table" then return value end
  local plain = {}
  for name, each in pairs(value) do
    plain[name] = without_tensors(each, place .. "/" .. tostring(name), tensors)
  end
  return plain
end

-- The inverse of without_tensors.
local function with_tensors(value, tensors)
  if type(value) ~= "table" then return value end
  if value.tensor and tensors[value.tensor] then return tensors[value.tensor] end
  for name, each in pairs(value) do value[name] = with_tensors(each, tensors) end
  return value
end

--- The reason why a run cannot resume from a folder; nil if it can. Reads every byte.
---@param folder string
---@return string? why
function saved_state.broken(folder)
  local ok, why = pcall(trainer.check_checkpoint, folder)
  if not ok then return errors.words(why) end
  if not system.exists(folder .. "/" .. STATE) then
    return folder .. ": it has only a model, since save_only_model was set"
  end
  ok, why = pcall(saved_state.read, folder)
  return not ok and errors.words(why) or nil
end

--- The contents of training_state.json, without tensors.
---@param folder string
---@return table
function saved_state.read(folder)
  local path = folder .. "/" .. STATE
  local state = system.json_decode(system.read(path), path)
  if type(state) ~= "table" then state = {} end
  -- Older checkpoints store the components' states at the top level instead of in `parts`.
  state.parts = with_nan(state.parts or { journal = state.journal, updates = state.updates,
    checkpoints = state.checkpoints, objective = state.objective })
  state_shape.check(path, state)
  return state
end

--- Restores the state of a component, with its tensors. Errors: those of its load_state; DATA_LOSS,
--- with the file, if the state of one of Moonring's own components is malformed.
---@param resumed moonring.Resumed
---@param name string
---@param part moonring.Part
function saved_state.load_part(resumed, name, part)
  local path = resumed.folder .. "/" .. TENSORS
  state_shape.load(resumed.folder .. "/" .. STATE, name, function()
    local tensors = system.exists(path) and safetensors.read(path) or {}
    part:load_state(with_tensors(resumed.parts[name], tensors), resumed)
  end)
end

--- The saved position in the data.
---@param folder string
---@return string
function saved_state.data(folder) return system.read(folder .. "/" .. DATA) end

-- Reads all files whose names match a pattern; the list is sorted by file name.
local function read_all(folder, pattern)
  local names, saved = {}, {}
  for _, name in ipairs(system.list(folder)) do
    if name:find(pattern) then names[#names + 1] = name end
  end
  table.sort(names)
  for i, name in ipairs(names) do saved[i] = safetensors.read(folder .. "/" .. name) end
  return saved
end

-- The number of sp groups with separate states in a folder; nil if there are none.
local function groups_of(folder)
  for _, name in ipairs(system.list(folder)) do
    local groups = name:match "^states%-%d+%-of%-%d+%-group%-%d+%-of%-(%d+)%.safetensors$"
    if groups then return tonumber(groups) end
  end
end

-- The pattern for the names of the files with this rank's weights and optimizer state.
local function pattern_of(folder, rounds)
  local saved = groups_of(folder)
  if not saved then return "^states%-%d+%-of%-%d+%.safetensors$" end
  local group, groups = 0, nil
  if rounds then group, groups = rounds:place() end
  if saved ~= groups then
    errors.fail("resume_from_checkpoint: ", folder, " has the states of ", saved, " sp groups that "
      .. "make steps of their own (local_steps), expected as many, got ", groups or "none")
  end
  return ("^states%%-%%d+%%-of%%-%%d+%%-group%%-%05d%%-of%%-%%d+%%.safetensors$"):format(group + 1)
end

--- Loads the saved weights and optimizer state. The number of ranks that shard them may differ from
--- that of the saved run. Collective over all ranks. Errors: INVALID_ARGUMENT if sp groups saved
--- separate weights (local_steps) and the number of groups differs.
---@param folder string
---@param states moonring.States
---@param optimizer moonring.Optimizer
---@param rounds? moonring.Rounds with local SGD (local_steps)
function saved_state.load_weights(folder, states, optimizer, rounds)
  tensor.scope(function()
    states:load(optimizer, read_all(folder, pattern_of(folder, rounds)))
    if rounds then rounds.outer:load(read_all(folder, "^outer%-%d+%-of%-%d+%.safetensors$")) end
  end)
  states:publish()
end

--- The weights and optimizer state that this rank writes. Collective over all ranks.
---@param states moonring.States
---@param optimizer moonring.Optimizer
---@return table<string, moonring.Tensor>
function saved_state.take(states, optimizer)
  local _, _, is_first = states:place()
  return states:save(optimizer, is_first)
end

---@class moonring.SavedParts
---@field states moonring.States
---@field tensors table<string, moonring.Tensor> the result of `take`; closed once they are written
---@field rounds? moonring.Rounds
---@field steps moonring.Steps
---@field state table for training_state.json: run, step, config, data, examples_per_step, group
---@field parts table<string, any> the results of state() on this rank; rank 0's are stored

--- Writes all files of the saved state into a checkpoint's folder. Collective over all ranks.
---@param folder string
---@param mesh moonring.Mesh
---@param saved moonring.SavedParts
---@return string[] names of the files that only this rank writes
function saved_state.write(folder, mesh, saved)
  local own = {}
  local index, of, is_first = saved.states:place()
  local function write(name, tensors) -- not flushed: publishing the checkpoint flushes
    own[#own + 1] = name
    safetensors.write(folder .. "/" .. name, tensors, { flush = false })
    for _, each in pairs(tensors) do each:close() end
  end
  local group, groups = 0, nil
  if saved.rounds then group, groups = saved.rounds:place() end
  if is_first then
    write(groups and OF_GROUP:format(index + 1, of, group + 1, groups)
      or STATES:format(index + 1, of), saved.tensors)
  end
  -- The common weights are the same on all groups, so only group 0 writes them.
  if is_first and groups and group == 0 then
    write(OUTER:format(index + 1, of), saved.rounds.outer:save())
  end
  if mesh:rank() ~= 0 then return own end
  local state, tensors = saved.state, {}
  state.config_sha1 = system.sha1(system.json_encode(state.config))
  state.parts = {}
  for name, part in pairs(saved.parts) do
    state.parts[name] = without_tensors(part, name, tensors)
  end
  if next(tensors) then
    safetensors.write(folder .. "/" .. TENSORS, tensors, { flush = false })
  end
  system.write(folder .. "/" .. STATE, system.json_encode(state) .. "\n")
  system.write(folder .. "/" .. DATA, saved.steps:save_state())
  return own
end

return saved_state
