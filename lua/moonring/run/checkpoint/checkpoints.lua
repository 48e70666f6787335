--- The checkpoints of a run, in folders output_dir/checkpoint-N. A folder of this name is always a
-- complete checkpoint. With save_total_limit the oldest ones are removed, but never the newest or
-- the best.
--
-- To save, all ranks write their files of checkpoint-N.partial into memory, up to half of the free
-- memory; files beyond that go to the disk at once. Background threads then write the files in
-- memory to the disk and compute checksums while the training continues. At the end rank 0's thread
-- writes manifest.json and renames the folder. If a save fails, only this checkpoint is lost: the
-- error is logged and the run continues.
local best = require "moonring.run.checkpoint.best"
local checkpoint_folders = require "moonring.base.checkpoint_folders"
local errors = require "moonring.base.errors"
local machine = require "moonring.base.machine"
local options = require "moonring.base.options"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.checkpoints
local checkpoints = {}

--- Options of checkpoints.new.
---@class moonring.CheckpointsOptions
---@field dir string
---@field mesh moonring.Mesh
--- `save` writes a checkpoint into an empty folder, on every rank, and returns the names of the
--- files that this rank wrote.
---@field save fun(folder: string): string[]
---@field say fun(line: string) logs a line, on every rank
---@field saved? fun(folder: string) called when a checkpoint is complete, on rank 0
--- `turn` is called instead of `save` if no file can be written: it switches between trained and
--- evaluated weights as `save` does, because switching rounds the weights.
---@field turn? fun()
--- `apart`: why no checkpoint can be saved, if ranks have separate folders.
---@field apart? string
---@field limit? integer how many are kept; default: all
--- `metric`: which metric of an evaluation decides the best checkpoint, with or without "eval_";
--- absent: the best is not tracked.
---@field metric? string
---@field greater? boolean a greater value is better; default: true unless the metric ends in "loss"

---@class moonring.Checkpoints
---@field dir string
---@field apart? string
---@field mesh moonring.Mesh
---@field write fun(folder: string): string[]
---@field turn fun() swaps the weights as `write` does, when nothing can be written
---@field say fun(line: string)
---@field saved fun(folder: string)
---@field kept string[] folders, the oldest first
---@field newest? integer step of the newest complete checkpoint; on rank 0
---@field pending? table the save in progress: { step, draft, ends, publisher }
---@field limit? integer
---@field best moonring.BestEvaluation the best so far
local Checkpoints = {}
Checkpoints.__index = Checkpoints

--- Creates the checkpoints of a new run, which has none yet.
---@param given moonring.CheckpointsOptions
---@return moonring.Checkpoints
function checkpoints.new(given)
  options.check("checkpoints.new", given, { dir = "string", limit = "number?", metric = "string?",
    greater = "boolean?", apart = "string?", mesh = "any", save = "function",
    turn = "function?", say = "function", saved = "function?" })
  if given.mesh:rank() == 0 then checkpoint_folders.sweep(given.dir) end
  return setmetatable({ dir = given.dir, apart = given.apart, limit = given.limit,
    mesh = given.mesh, best = best.new(given.metric, given.greater), write = given.save,
    turn = given.turn or function() end, saved = given.saved or function() end,
    say = given.say, kept = {} }, Checkpoints)
end

--- Records the metrics of an evaluation. Returns whether it is the best so far.
---@param evaluation table<string, number> by their "eval_" names
---@param step integer
---@return boolean
function Checkpoints:judge(evaluation, step)
  return self.best:judge(evaluation, step, self.dir .. "/checkpoint-" .. step)
end

-- Removes one folder from the list self.kept and returns it: the oldest checkpoint that is neither
-- the newest nor the best.
local function oldest(self)
  for i = 1, #self.kept - 1 do
    if self.kept[i] ~= self.best.folder then return table.remove(self.kept, i) end
  end
end

-- Removes checkpoints beyond the limit. On rank 0.
local function rotate(self)
  while self.limit and #self.kept > math.max(self.limit, 1) do
    local gone = oldest(self)
    if not gone then return end
    local ok, why = pcall(trainer.remove_checkpoint, gone)
    if not ok then self.say(gone .. " could not be removed: " .. errors.words(why)) end
  end
end

--- Restores the state when the run resumes from a checkpoint.
---@param state table the result of state()
---@param from { step: integer, folder: string } the checkpoint
function Checkpoints:load_state(state, from)
  self.best:load_state(state, self.dir, system.absolute(from.folder .. "/.."))
  self.newest = from.step
  if self.mesh:rank() ~= 0 then return end
  local is_own = { [from.step] = true } -- the folder may also have checkpoints of an earlier run
  for _, kept in ipairs(state.kept or {}) do is_own[kept] = true end
  for _, kept in ipairs(checkpoint_folders.list(self.dir)) do
    if is_own[kept] then table.insert(self.kept, 1, self.dir .. "/checkpoint-" .. kept) end
  end
  -- The checkpoint is complete, so older ones may be removed now, which frees space on a full disk.
  if self.kept[#self.kept] == self.dir .. "/checkpoint-" .. from.step then rotate(self) end
end

--- The state that a checkpoint stores.
---@return table { best, stale, kept }
function Checkpoints:state()
  local kept = {}
  for i, folder in ipairs(self.kept) do kept[i] = tonumber(folder:match "%d+$") end
  local state = self.best:state()
  state.kept = kept
  return state
end

-- Combines the results of all ranks: returns the error of the first rank that failed, nil if none
-- failed. The result is the same on all ranks.
local function agreed(self, ok, why)
  for rank, text in ipairs(self.mesh:gather(ok and "" or "?" .. errors.words(why))) do
    if text ~= "" then
      return (self.mesh:size() > 1 and "rank " .. rank - 1 .. ": " or "") .. text:sub(2)
    end
  end
end

-- Runs `body` on rank 0 only. Returns its error on all ranks.
local function on_first(self, body)
  return agreed(self, pcall(self.mesh:rank() == 0 and body or function() end))
end

-- Removes the files of a save that failed, and logs the error. On rank 0. `ends`: the run ends
-- after this save.
local function give_up(self, step, draft, why, ends)
  if self.mesh:rank() ~= 0 then return end
  pcall(system.remove, draft)
  local last = self.newest and ("checkpoint-%d is the last good one"):format(self.newest)
    or "there is none yet"
  self.say(("checkpoint-%d was not saved: %s; %s%s"):format(step, why, last,
    ends and "" or "; training continues"))
end

-- The files that this rank flushes and checksums: those that it wrote itself, and on rank 0 also
-- the files that all ranks share.
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

--- Checks whether the best checkpoint can be loaded. Collective over all ranks.
---@return string? why the reason if it cannot be loaded; nil if it can
function Checkpoints:best_is_broken()
  return on_first(self, function()
    if not system.is_folder(self.best.folder) then
      error("it was not saved, or is not there any more", 0)
    end
    trainer.check_checkpoint(self.best.folder)
  end)
end

-- The number of bytes of this rank's memory that may buffer files until they are on the disk.
local function room()
  return (machine.memory_of_rank("cpu", machine.local_ranks() or 1) or 0) / 2
end

-- Writes the files, into memory as long as there is room. Returns the results of pcall(self.write),
-- and the object that has the buffered files.
local function write_held(self, draft)
  local held = trainer.hold_files { folder = draft, budget = room() }
  held:begin()
  local ok, own = pcall(self.write, draft)
  held:finish()
  return ok, own, held
end

-- The log line about a save: how long the training was blocked, and how much was buffered.
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

--- Starts to save checkpoint-STEP. If the save fails, only this checkpoint is lost, and the error
--- is logged. Collective over all ranks.
---@param step integer
---@param ends? boolean the run ends after it
function Checkpoints:save(step, ends)
  local began = system.clock()
  self:settle()
  local waited = system.clock() - began
  local folder = self.dir .. "/checkpoint-" .. step
  local draft = folder .. ".partial"
  local failed = self.apart or on_first(self, function()
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

-- Finishes the save in progress and logs its result on rank 0.
local function conclude(self)
  local save = self.pending
  self.pending = nil
  local ok, why = pcall(save.publisher.wait, save.publisher)
  if self.mesh:rank() ~= 0 then return end
  if not ok then return give_up(self, save.step, save.draft, errors.words(why), save.ends) end
  if not save.ends then self.say(held_words(save)) end
  local folder = self.dir .. "/checkpoint-" .. save.step
  self.kept[#self.kept + 1], self.newest = folder, save.step
  self.saved(folder)
  rotate(self)
end

--- Waits until a save in progress is on the disk, and finishes it. Collective over all ranks.
function Checkpoints:settle()
  if self.pending then conclude(self) end
  self.mesh:barrier() -- ranks may finish at different times
end

--- Finishes a save whose files have reached the disk, and removes checkpoints beyond the limit.
--- Does nothing if the save is still in progress.
function Checkpoints:poll()
  if self.pending and self.pending.publisher:done() then conclude(self) end
end

return checkpoints
