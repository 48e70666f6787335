--- The checkpoints of a run: output_dir/checkpoint-N, whole or not there; the oldest removed beyond
-- save_total_limit, the newest and the best kept in any case. All ranks write the files of
-- checkpoint-N.partial into memory, as far as half of what is free goes, and the rest right there.
-- The files then go to the disk, and are summed, on a thread beside the training; once all are
-- there rank 0's thread writes manifest.json and gives the folder its name.
-- What fails on the way costs this checkpoint alone: the run says so and goes on.
local best = require "moonring.run.checkpoint.best"
local checkpoint_folders = require "moonring.run.checkpoint.folders"
local errors = require "moonring.base.errors"
local machine = require "moonring.base.machine"
local options = require "moonring.base.options"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.checkpoints
local checkpoints = {}

---@class moonring.CheckpointsOptions
---@field dir string
---@field mesh moonring.Mesh
--- writes one into an empty folder, on every rank; returns the names of this rank's own files
---@field save fun(folder: string): string[]
---@field say fun(line: string) takes a line for the log, on every rank
--- does to the weights what `save` does, where nothing can be written
---@field turn? fun()
---@field limit? integer how many are kept; all where absent
--- of an evaluation, with or without "eval_"; none is best where absent
---@field metric? string
---@field greater? boolean is better; where absent, unless the metric ends in "loss"

---@class moonring.Checkpoints
---@field dir string
---@field mesh moonring.Mesh
---@field write fun(folder: string): string[]
---@field turn fun() does to the weights what `write` does, where nothing can be written
---@field say fun(line: string)
---@field kept string[] folders, the oldest first
---@field newest? integer step of the last that is whole; on rank 0
---@field pending? table the one that is under way: { step, draft, ends, publisher }
---@field limit? integer
---@field best moonring.BestEvaluation of all so far
local Checkpoints = {}
Checkpoints.__index = Checkpoints

--- The checkpoints of a run, none so far.
---@param given moonring.CheckpointsOptions
---@return moonring.Checkpoints
function checkpoints.new(given)
  options.check("checkpoints.new", given, { dir = "string", limit = "number?", metric = "string?",
    greater = "boolean?", mesh = "any", save = "function", turn = "function?", say = "function" })
  if given.mesh:rank() == 0 then checkpoint_folders.sweep(given.dir) end
  return setmetatable({ dir = given.dir, limit = given.limit, mesh = given.mesh,
    best = best.new(given.metric, given.greater), write = given.save,
    turn = given.turn or function() end,
    say = given.say, kept = {} }, Checkpoints)
end

--- Takes an evaluation's numbers at a step: whether they are the best so far.
---@param evaluation table<string, number> by their "eval_" names
---@param step integer
---@return boolean
function Checkpoints:judge(evaluation, step)
  return self.best:judge(evaluation, step, self.dir .. "/checkpoint-" .. step)
end

-- The oldest that may go: not the newest, nor the best.
local function oldest(self)
  for i = 1, #self.kept - 1 do
    if self.kept[i] ~= self.best.folder then return table.remove(self.kept, i) end
  end
end

-- On rank 0: removes what is beyond the limit.
local function rotate(self)
  while self.limit and #self.kept > math.max(self.limit, 1) do
    local gone = oldest(self)
    if not gone then return end
    local ok, why = pcall(trainer.remove_checkpoint, gone)
    if not ok then self.say(gone .. " could not be removed: " .. errors.words(why)) end
  end
end

--- Goes on after a checkpoint.
---@param state table what state() gave then
---@param from { step: integer, folder: string } the checkpoint
function Checkpoints:load_state(state, from)
  self.best:load_state(state, self.dir, system.absolute(from.folder .. "/.."))
  self.newest = from.step
  if self.mesh:rank() ~= 0 then return end
  local is_own = { [from.step] = true } -- the folder may have checkpoints of an earlier run too
  for _, kept in ipairs(state.kept or {}) do is_own[kept] = true end
  for _, kept in ipairs(checkpoint_folders.list(self.dir)) do
    if is_own[kept] then table.insert(self.kept, 1, self.dir .. "/checkpoint-" .. kept) end
  end
  -- It is whole: a full disk has room again.
  if self.kept[#self.kept] == self.dir .. "/checkpoint-" .. from.step then rotate(self) end
end

--- What of this a checkpoint holds.
---@return table { best, stale, kept }
function Checkpoints:state()
  local kept = {}
  for i, folder in ipairs(self.kept) do kept[i] = tonumber(folder:match "%d+$") end
  local state = self.best:state()
  state.kept = kept
  return state
end

-- What went wrong on the first rank where something did, the same on all; nil where all is well.
local function agreed(self, ok, why)
  for rank, text in ipairs(self.mesh:gather(ok and "" or "?" .. errors.words(why))) do
    if text ~= "" then
      return (self.mesh:size() > 1 and "rank " .. rank - 1 .. ": " or "") .. text:sub(2)
    end
  end
end

-- Runs something on rank 0 alone.
local function on_first(self, body)
  return agreed(self, pcall(self.mesh:rank() == 0 and body or function() end))
end

-- On rank 0: a checkpoint that came to nothing. `ends`: so does the run now.
local function give_up(self, step, draft, why, ends)
  if self.mesh:rank() ~= 0 then return end
  pcall(system.remove, draft)
  local last = self.newest and ("checkpoint-%d is the last good one"):format(self.newest)
    or "there is none yet"
  self.say(("checkpoint-%d was not saved: %s; %s%s"):format(step, why, last,
    ends and "" or "; training goes on"))
end

-- The files that this rank flushes and sums: its own, and on rank 0 all that are nobody's own.
local function mine(self, draft, own)
  local taken = {}
  for rank, text in ipairs(self.mesh:gather(table.concat(own, "\n"))) do
    for name in text:gmatch "[^\n]+" do taken[name] = rank - 1 end
  end
  local names = {}
  for _, name in ipairs(system.list(draft)) do
    if (taken[name] or 0) == self.mesh:rank() and not name:find "^sealed%-" then
      names[#names + 1] = name
    end
  end
  return names
end

--- Why the best checkpoint cannot be loaded. Collective over all ranks.
---@return string? why nil where it can
function Checkpoints:best_is_broken()
  return on_first(self, function()
    if not system.is_folder(self.best.folder) then
      error("it was not saved, or is not there any more", 0)
    end
    trainer.check_checkpoint(self.best.folder)
  end)
end

-- Bytes of this rank's memory that files may wait in.
local function room()
  return (machine.memory_of_rank("cpu", machine.local_ranks() or 1) or 0) / 2
end

-- Writes the files, into memory where there is room: pcall's results, and the files held.
local function write_held(self, draft)
  local held = trainer.hold_files { folder = draft, budget = room() }
  held:begin()
  local ok, own = pcall(self.write, draft)
  held:finish()
  return ok, own, held
end

-- How long the step was held, for the log.
local function held_words(save)
  local size = machine.show(save.held:bytes())
  local why = save.held:was_full()
    and ("%s of it found room in memory, the rest went to the disk meanwhile"):format(size)
    or size .. " copied into memory and written beside the training"
  if save.waited >= 0.1 then
    why = ("%.1f s of them for the one before to reach the disk; %s"):format(save.waited, why)
  end
  return ("checkpoint-%d: training was held %.1f s (%s)"):format(save.step, save.seconds, why)
end

--- Begins to save checkpoint-STEP; what fails costs this checkpoint alone, and is said. Collective
--- over all ranks.
---@param step integer
---@param ends? boolean the run ends after it
function Checkpoints:save(step, ends)
  local began = system.clock()
  self:settle()
  local waited = system.clock() - began
  local folder = self.dir .. "/checkpoint-" .. step
  local draft = folder .. ".partial"
  local failed = on_first(self, function()
    system.remove(draft)
    system.make_folder(draft)
  end)
  local own, held
  if failed then
    self.turn()
  else
    local ok
    ok, own, held = write_held(self, draft)
    failed = agreed(self, ok, own)
  end
  if failed then return give_up(self, step, draft, failed, ends) end
  local publisher = trainer.publish_checkpoint { draft = draft, folder = folder,
    names = mine(self, draft, own), held = held, step = step, rank = self.mesh:rank(),
    ranks = self.mesh:size(), mesh = self.mesh }
  self.pending = { step = step, draft = draft, ends = ends, publisher = publisher, held = held,
    waited = waited, seconds = system.clock() - began }
end

-- What comes of the save that is under way, which rank 0 knows.
local function conclude(self)
  local save = self.pending
  self.pending = nil
  local ok, why = pcall(save.publisher.wait, save.publisher)
  if self.mesh:rank() ~= 0 then return end
  if not ok then return give_up(self, save.step, save.draft, errors.words(why), save.ends) end
  if not save.ends then self.say(held_words(save)) end
  self.kept[#self.kept + 1], self.newest = self.dir .. "/checkpoint-" .. save.step, save.step
  rotate(self)
end

--- Ends a save that is under way, waiting for the disk. Collective over all ranks.
function Checkpoints:settle()
  if self.pending then conclude(self) end
  self.mesh:barrier() -- one rank may know before another
end

--- Ends a save whose files have reached the disk, and removes what is beyond the limit; else
--- nothing.
function Checkpoints:poll()
  if self.pending and self.pending.publisher:done() then conclude(self) end
end

return checkpoints
