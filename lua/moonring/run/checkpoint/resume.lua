--- Resumes from a checkpoint: chooses it, and checks that the configuration is that of the
-- interrupted run. saved_state.lua describes the files of a checkpoint.
local changes_of = require "moonring.run.checkpoint.resume_changes"
local checkpoint_folders = require "moonring.base.checkpoint_folders"
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
---@field skips boolean the data continues where it stopped
---@field by_itself? boolean not requested: output_dir has checkpoints
---@field config table<string, any> the recorded values of configuration keys
---@field origins? moonring.Origins of its models
---@field data? string the data set's digest
---@field examples_per_step integer
---@field group? integer examples per group of the loss's term over groups
---@field parts table<string, any> states of the run's parts
local Resumed = {}
Resumed.__index = Resumed

-- Optional fields of Resumed that are not read from training_state.json.
local OWN = { newest = true, by_itself = true }

-- Finds the newest complete checkpoint in output_dir that belongs to the folder's current run, or
-- to an earlier run, up to the step at which the current run resumed from it. Also returns a note
-- for each checkpoint that was skipped.
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
        .. " resumes from it anyway"
    end
    if not why then return folder, notes end
    notes[#notes + 1] = "passed over: " .. why
  end
  return nil, notes
end

--- Whether a launcher (moonring's own, or torchrun) has restarted the ranks after a failure.
---@return boolean
function resume.restarted()
  return (tonumber(system.environment "TORCHELASTIC_RESTART_COUNT") or 0) > 0
end

-- Whether this run had already begun before the launcher restarted its ranks: training_args.yaml in
-- output_dir records the process that started them.
local function had_begun(c)
  if not resume.restarted() then return false end
  local _, _, started = training_args.of_run(c.output_dir)
  return started == system.parent_id()
end

-- The reason why a run cannot resume from a folder; nil if it can.
local function refusal(folder)
  if not system.is_folder(folder) then return folder .. ": no such folder" end
  for _, step in ipairs(checkpoint_folders.list(folder)) do
    if checkpoint_folders.resumable(folder, step) then
      return ("%s has checkpoints: expected one of them, the newest is %s/checkpoint-%d"):format(
        folder, folder, step)
    end
  end
  return saved_state.broken(folder)
end

-- Chooses the checkpoint: the folder named by resume_from_checkpoint, or the newest complete one.
-- If a launcher has restarted the ranks, the newest has priority. Also returns notes about skipped
-- checkpoints, and whether the chosen one is the newest.
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

local BY_ITSELF = "; it was resumed because output_dir has its checkpoints: "
  .. "overwrite_output_dir: true starts from the beginning"

local function refuse(self, changes)
  if #changes == 0 then return end
  errors.fail("resume_from_checkpoint: ", self.folder, " is of another run: ",
    table.concat(changes, "; "),
    "; ignore_data_skip: true resumes anyway, at the beginning of the data",
    self.by_itself and BY_ITSELF or "")
end

-- Chooses the checkpoint on rank 0, which reads every byte of it to check it, and sends the choice
-- to all ranks.
local function found_by_first(c, mesh)
  local found
  if mesh:rank() == 0 then
    local ok, folder, notes, is_newest = pcall(choose, c)
    found = ok and { folder = folder, notes = notes, newest = is_newest }
      or { failure = errors.encode(folder) }
    found.own = ok and folder and had_begun(c)
      and saved_state.read(folder).run == training_args.of_run(c.output_dir)
  end
  -- Sent as raw bytes, since a path need not be valid UTF-8, which JSON requires.
  local path = mesh:gather(found and found.folder or "")[1]
  local text = mesh:gather(found and system.json_encode(found) or "")[1]
  found = system.json_decode(text, "resume")
  found.folder = path ~= "" and path or nil
  return found
end

--- The checkpoint to resume from; nil if the run starts from the beginning. Errors:
--- INVALID_ARGUMENT if the requested checkpoint is absent or broken, or if the configuration is
--- that of another run and ignore_data_skip is not set. Collective over all ranks.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@return moonring.Resumed?
---@return string[]? notes if the first result is nil: the broken checkpoints that were skipped
function resume.find(c, mesh)
  if not c.resume_from_checkpoint and not resume.restarted() then return nil end
  local found = found_by_first(c, mesh)
  if found.failure then error(errors.decode(found.failure), 0) end
  if not found.folder then return nil, found.notes end
  local self = setmetatable({ folder = found.folder, notes = found.notes, newest = found.newest,
    skips = not c.ignore_data_skip or found.own, by_itself = c.resumes_by_itself }, Resumed)
  for name, value in pairs(saved_state.read(self.folder)) do
    if self[name] == nil and not OWN[name] then self[name] = value end -- keeps self.folder
  end
  local may, may_not = changes_of.between(self.config, c)
  if self.skips then refuse(self, may_not) end
  for _, changes in ipairs { may, may_not } do
    for _, change in ipairs(changes) do
      self.notes[#self.notes + 1] = "resumes with a change: " .. change
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

--- Refuses to resume if the examples differ from those of the interrupted run.
---@param digest? string of the data set; absent for a stream
---@param examples_per_step integer
---@param group? integer examples per group of the loss's term over groups
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

--- Refuses to resume if the models have changed since the run began.
---@param changes string[] the result of origins.changes
function Resumed:check_origins(changes)
  if self.skips then refuse(self, changes) end
  for _, change in ipairs(changes) do
    self.notes[#self.notes + 1] = "resumes with a change: " .. change
  end
end

--- Moves the data to the position where the interrupted run stopped.
---@param steps moonring.Steps
function Resumed:place(steps)
  if not self.skips then return end
  local ok, why = pcall(steps.load_state, steps, saved_state.data(self.folder))
  if not ok then refuse(self, { errors.words(why) }) end
end

--- Copies the logs of the resumed run into output_dir, unless it already has logs. On rank 0.
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
