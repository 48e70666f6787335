--- Going on from a checkpoint: which one, and whether the run is the one that was interrupted. What
-- a checkpoint holds: saved_state.lua.
local changes_of = require "moonring.run.checkpoint.resume_changes"
local checkpoint_folders = require "moonring.run.checkpoint.folders"
local errors = require "moonring.base.errors"
local saved_state = require "moonring.run.checkpoint.saved_state"
local system = require "moonring.native.system"
local training_args = require "moonring.config.training_args"

---@class moonring.resume
local resume = {}

---@class moonring.Resumed
---@field folder string
---@field step integer
---@field run string the run's name
---@field newest? boolean it is the newest in output_dir, not one that a configuration names
---@field notes string[] lines for the log
---@field skips boolean the data goes on where it stood
---@field by_itself? boolean nobody asked for it: output_dir holds checkpoints
---@field config table<string, any> the keys' values that it remembers
---@field origins? moonring.Origins of its models
---@field data? string the data set's digest
---@field examples_per_step integer
---@field group? integer examples over which the loss has a term of its own
---@field parts table<string, any> states of the run's parts
local Resumed = {}
Resumed.__index = Resumed

-- Fields that a checkpoint does not set, and that may be absent.
local OWN = { newest = true, by_itself = true }

-- The newest whole checkpoint in output_dir, of the run that is there or, up to where that went on
-- from them, of earlier ones; and lines about those that are passed over.
local function newest(c)
  local notes, run, before = {}, training_args.of_run(c.output_dir)
  local function is_of_run(folder, step)
    local of = saved_state.read(folder).run
    return not run or of == run or step <= (before[of] or -1)
  end
  for _, step in ipairs(checkpoint_folders.list(c.output_dir)) do
    local folder = c.output_dir .. "/checkpoint-" .. step
    local why = saved_state.broken(folder)
    if not why and not is_of_run(folder, step) then
      why = folder .. ": of an earlier run in this folder; resume_from_checkpoint: " .. folder
        .. " goes on from it all the same"
    end
    if not why then return folder, notes end
    notes[#notes + 1] = "passed over: " .. why
  end
  return nil, notes
end

--- Whether a launcher (moonring's own, or torchrun) has started the ranks again after a failure.
---@return boolean
function resume.restarted()
  return (tonumber(system.environment "TORCHELASTIC_RESTART_COUNT") or 0) > 0
end

-- Whether a launcher that restarted the ranks had already begun this run: training_args.yaml in
-- output_dir names the process that started its ranks.
local function had_begun(c)
  if not resume.restarted() then return false end
  local _, _, started = training_args.of_run(c.output_dir)
  return started == system.parent_id()
end

-- Why a folder that a configuration names is none to go on from; nil where it is one.
local function refusal(folder)
  if not system.is_folder(folder) then return folder .. ": no such folder" end
  return saved_state.broken(folder)
end

-- The folder that resume_from_checkpoint names, or the newest whole checkpoint: where the ranks
-- were started again this comes first. And lines about those that are passed over; and whether it
-- is the newest.
local function choose(c)
  local asked, notes, folder = c.resume_from_checkpoint, {}, nil
  local is_word = asked == true or asked == "auto"
  if is_word or had_begun(c) then folder, notes = newest(c) end
  if folder or not asked or asked == "auto" then return folder, notes, true end
  if asked == true then
    local passed_over = #notes > 0 and ": " .. table.concat(notes, "; ") or ""
    errors.fail("resume_from_checkpoint: no whole checkpoint in ", c.output_dir, passed_over)
  end
  local why = refusal(asked)
  if why then errors.fail("resume_from_checkpoint: ", why) end
  return asked, notes
end

local BY_ITSELF = "; output_dir holds its checkpoints, so it was gone on from: "
  .. "overwrite_output_dir: true begins anew"

local function refuse(self, changes)
  if #changes == 0 then return end
  errors.fail("resume_from_checkpoint: ", self.folder, " is of another run: ",
    table.concat(changes, "; "),
    "; ignore_data_skip: true goes on all the same, at the data's beginning",
    self.by_itself and BY_ITSELF or "")
end

-- Rank 0 looks, and reads every byte; what it found, on all ranks.
local function found_by_first(c, mesh)
  local found
  if mesh:rank() == 0 then
    local ok, folder, notes, is_newest = pcall(choose, c)
    found = ok and { folder = folder, notes = notes, newest = is_newest } or { failure = folder }
    found.own = ok and folder and had_begun(c)
      and saved_state.read(folder).run == training_args.of_run(c.output_dir)
  end
  -- As raw bytes: a path need not be UTF-8, which JSON demands.
  local path = mesh:gather(found and found.folder or "")[1]
  local text = mesh:gather(found and system.json_encode(found) or "")[1]
  found = system.json_decode(text, "resume")
  found.folder = path ~= "" and path or nil
  return found
end

--- The checkpoint that resume_from_checkpoint asks for; nil where the run begins anew. Errors:
--- INVALID_ARGUMENT where there is none, where the one that is named is broken, and where the
--- configuration is another run's, unless ignore_data_skip. Collective over all ranks.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@return moonring.Resumed?
---@return string[]? notes where there is none: the broken ones that were passed over
function resume.find(c, mesh)
  if not c.resume_from_checkpoint and not resume.restarted() then return nil end
  local found = found_by_first(c, mesh)
  if found.failure then error(found.failure, 0) end
  if not found.folder then return nil, found.notes end
  local self = setmetatable({ folder = found.folder, notes = found.notes, newest = found.newest,
    skips = not c.ignore_data_skip or found.own, by_itself = c.resumes_by_itself }, Resumed)
  for name, value in pairs(saved_state.read(self.folder)) do
    if self[name] == nil and not OWN[name] then self[name] = value end -- folder is no field of it
  end
  local may, may_not = changes_of.between(self.config, c)
  if self.skips then refuse(self, may_not) end
  for _, changes in ipairs { may, may_not } do
    for _, change in ipairs(changes) do
      self.notes[#self.notes + 1] = "goes on with a change: " .. change
    end
  end
  self.notes[#self.notes + 1] = ("goes on after step %d, from %s"):format(self.step, self.folder)
  return self
end

local STEP = "a step of %d examples (per_device_train_batch_size x gradient_accumulation_steps x "
  .. "dp) was one of %d"
local GROUP = "its loss has a term over each %s examples (per_device_train_batch_size, in stage "
  .. "kto "
  .. "x dp), which was over %s"

--- Refuses other examples than those that the run was in the middle of.
---@param digest? string of the data set; absent of a stream
---@param examples_per_step integer
---@param group? integer examples over which the loss has a term of its own
function Resumed:check(digest, examples_per_step, group)
  if not self.skips then return end
  local changes, show = {}, changes_of.show
  if digest ~= self.data then
    changes[1] = "the data set's examples are other ones, or in another order"
  end
  if examples_per_step ~= self.examples_per_step then
    changes[#changes + 1] = STEP:format(examples_per_step, self.examples_per_step)
  end
  if group ~= self.group then
    changes[#changes + 1] = GROUP:format(show(group), show(self.group))
  end
  refuse(self, changes)
end

--- Refuses models that are not the run's any more.
---@param changes string[] what origins.changes gives
function Resumed:check_origins(changes)
  if self.skips then refuse(self, changes) end
  for _, change in ipairs(changes) do
    self.notes[#self.notes + 1] = "goes on with a change: " .. change
  end
end

--- Moves the data to where it stood.
---@param steps moonring.Steps
function Resumed:place(steps)
  if not self.skips then return end
  local ok, why = pcall(steps.load_state, steps, saved_state.data(self.folder))
  if not ok then refuse(self, { errors.words(why) }) end
end

--- Takes the logs of the run that it goes on from into an output_dir that has none. By rank 0.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
function Resumed:bring_log(c, mesh)
  for _, name in ipairs { "trainer_log.jsonl", "ranks.jsonl" } do
    local from, to = system.absolute(self.folder .. "/../" .. name), c.output_dir .. "/" .. name
    if mesh:rank() == 0 and not system.exists(to) and system.exists(from) then
      system.write(to, system.read(from))
    end
  end
end

return resume
