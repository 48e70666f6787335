--- The checkpoints of a run: output_dir/checkpoint-N, whole or not there; the oldest removed beyond save_total_limit, the newest and the best kept in any case.
-- All ranks write into checkpoint-N.partial. Its files then go to the disk, and are summed, on a thread beside the training; once all are there rank 0's thread writes manifest.json and
-- gives the folder its name. What fails on the way costs this checkpoint alone: the run says so and goes on.
local config = require "moonring.config"
local nonfinite = require "moonring.run.nonfinite"
local options = require "moonring.config.options"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

local checkpoints = {}
local Checkpoints = {}
Checkpoints.__index = Checkpoints

-- A count of steps from save_steps or eval_steps: below 1 it is a part of all steps.
function checkpoints.interval(value, total_steps) return value < 1 and math.ceil(value * total_steps) or value end

--- The steps whose checkpoint-STEP a folder has, the newest first.
function checkpoints.list(dir)
  local steps = {}
  for _, name in ipairs(system.list(dir)) do
    local step = name:match "^checkpoint%-(%d+)$"
    if step and system.is_folder(dir .. "/" .. name) then steps[#steps + 1] = tonumber(step) end
  end
  table.sort(steps, function(a, b) return a > b end)
  return steps
end

--- Whether a step's checkpoint in a folder looks as one that a run can go on from: it has a manifest, and more than the model.
function checkpoints.resumable(dir, step)
  local folder = dir .. "/checkpoint-" .. step
  return system.exists(folder .. "/manifest.json") and system.exists(folder .. "/training_state.json")
end

--- Options: dir, limit (absent: all are kept), metric (absent: none is best; else a metric of the evaluation, "loss", with or without "eval_"), greater (is better; absent: unless
-- it ends in "loss"), mesh, save (a function that writes a checkpoint into a folder and returns the names of the files that are this rank's alone; all ranks call it), say (takes a
-- line for the log).
function checkpoints.new(given)
  options.check("checkpoints.new", given, { dir = "string", limit = "number?", metric = "string?",
    greater = "boolean?", mesh = "any", save = "function", say = "function" })
  local metric = given.metric
  if metric and not metric:find "^eval_" then metric = "eval_" .. metric end
  local greater = given.greater
  if metric and greater == nil then greater = not metric:find "loss$" end
  for _, name in ipairs(given.mesh:rank() == 0 and system.list(given.dir) or {}) do
    local died = name:find "^checkpoint%-%d+%.partial$" or name:find "^checkpoint%-%d+%.removed$"
    if died then system.remove(given.dir .. "/" .. name) end -- of a run that died as it saved
  end
  return setmetatable({ dir = given.dir, limit = given.limit, metric = metric, greater = greater,
    mesh = given.mesh, write = given.save, say = given.say, kept = {}, stale = 0 }, Checkpoints)
end

--- Takes an evaluation's numbers (by their "eval_" names) at a step: whether they are the best so far. `stale` counts the evaluations since the best.
function Checkpoints:judge(evaluation, step)
  if not self.metric then return false end
  local value = evaluation[self.metric]
  if value == nil then
    local names = {}
    for name in pairs(evaluation) do names[#names + 1] = name end
    table.sort(names)
    config.fail("metric_for_best_model: no evaluation gives ", self.metric, "; there are ", table.concat(names, ", "))
  end
  local better = nonfinite.is_finite(value) and (self.best == nil or (self.greater and value > self.best.metric) or (not self.greater and value < self.best.metric))
  if better then self.best = { metric = value, step = step, folder = self.dir .. "/checkpoint-" .. step } end
  self.stale = better and 0 or self.stale + 1
  return better
end

-- The oldest that may go: not the newest, nor the best.
local function oldest(self)
  for i = 1, #self.kept - 1 do
    if not (self.best and self.kept[i] == self.best.folder) then return table.remove(self.kept, i) end
  end
end

-- On rank 0: removes what is beyond the limit.
local function rotate(self)
  while self.limit and #self.kept > math.max(self.limit, 1) do
    local gone = oldest(self)
    if not gone then return end
    local ok, why = pcall(trainer.remove_checkpoint, gone)
    if not ok then self.say(gone .. " could not be removed: " .. config.words(why)) end
  end
end

--- Goes on after a checkpoint: its step, what state() gave then, and the folder that it is in.
function Checkpoints:resume(step, state, from)
  self.best, self.stale, self.newest = state.best, state.stale, step
  if self.best then -- the folder may have been moved since, or be another run's that this one goes on from
    local name = "/checkpoint-" .. self.best.step
    self.best.folder = (not system.exists(self.dir .. name) and system.exists(from .. name) and from or self.dir) .. name
  end
  if self.mesh:rank() ~= 0 then return end
  local is_own = { [step] = true } -- the folder may have checkpoints of an earlier run too
  for _, kept in ipairs(state.kept or {}) do is_own[kept] = true end
  for _, kept in ipairs(checkpoints.list(self.dir)) do
    if is_own[kept] then table.insert(self.kept, 1, self.dir .. "/checkpoint-" .. kept) end
  end
  if self.kept[#self.kept] == self.dir .. "/checkpoint-" .. step then rotate(self) end -- it is whole: a full disk has room again
end

--- What of this a checkpoint holds; by rank 0.
function Checkpoints:state()
  local kept = {}
  for i, folder in ipairs(self.kept) do kept[i] = tonumber(folder:match "%d+$") end
  return { best = self.best, stale = self.stale, kept = kept }
end

-- What went wrong on the first rank where something did, the same on all; nil where all is well.
local function agreed(self, ok, why)
  for rank, text in ipairs(self.mesh:gather(ok and "" or "?" .. config.words(why))) do
    if text ~= "" then return (self.mesh:size() > 1 and "rank " .. rank - 1 .. ": " or "") .. text:sub(2) end
  end
end

-- Runs something on rank 0 alone.
local function on_first(self, body)
  if self.mesh:rank() ~= 0 then return agreed(self, true) end
  return agreed(self, pcall(body))
end

-- On rank 0: a checkpoint that came to nothing. `ends`: so does the run now.
local function give_up(self, step, draft, why, ends)
  if self.mesh:rank() ~= 0 then return end
  pcall(system.remove, draft)
  local last = self.newest and ("checkpoint-%d is the last good one"):format(self.newest) or "there is none yet"
  self.say(("checkpoint-%d was not saved: %s; %s%s"):format(step, why, last, ends and "" or "; training goes on"))
end

-- The files that this rank flushes and sums: its own, and on rank 0 all that are nobody's own.
local function mine(self, draft, own)
  local taken = {}
  for rank, text in ipairs(self.mesh:gather(table.concat(own, "\n"))) do
    for name in text:gmatch "[^\n]+" do taken[name] = rank - 1 end
  end
  local names = {}
  for _, name in ipairs(system.list(draft)) do
    if (taken[name] or 0) == self.mesh:rank() and not name:find "^sealed%-" then names[#names + 1] = name end
  end
  return names
end

--- Why the best checkpoint cannot be loaded: nil where it can. Rank 0 reads every byte; every rank must call it.
function Checkpoints:best_is_broken()
  return on_first(self, function()
    if not system.is_folder(self.best.folder) then error("it was not saved, or is not there any more", 0) end
    trainer.check_checkpoint(self.best.folder)
  end)
end

--- Begins to save checkpoint-STEP; poll and settle end it. `ends`: the run ends after it (else, where the save fails, it goes on and says so). Every rank must call it.
function Checkpoints:save(step, ends)
  self:settle()
  local folder = self.dir .. "/checkpoint-" .. step
  local draft = folder .. ".partial"
  local failed = on_first(self, function()
    system.remove(draft)
    system.make_folder(draft)
  end)
  local ok, own = true, nil
  if not failed then
    ok, own = pcall(self.write, draft)
    failed = agreed(self, ok, own)
  end
  if failed then return give_up(self, step, draft, failed, ends) end
  self.pending = { step = step, draft = draft, ends = ends, publisher = trainer.publish_checkpoint { draft = draft, folder = folder, names = mine(self, draft, own), step = step, rank = self.mesh:rank(),
    ranks = self.mesh:size() } }
end

-- What comes of the save that is under way, which rank 0 knows.
local function conclude(self)
  local save = self.pending
  self.pending = nil
  local ok, why = pcall(save.publisher.wait, save.publisher)
  if self.mesh:rank() ~= 0 then return end
  if not ok then return give_up(self, save.step, save.draft, config.words(why), save.ends) end
  self.kept[#self.kept + 1], self.newest = self.dir .. "/checkpoint-" .. save.step, save.step
  rotate(self)
end

--- Ends a save that is under way, waiting for the disk. Every rank must call it.
function Checkpoints:settle()
  if self.pending then conclude(self) end
  self.mesh:barrier() -- one rank may know before another
end

--- Ends a save whose files have reached the disk; else nothing. No rank waits for another.
function Checkpoints:poll()
  if self.pending and self.pending.publisher:done() then conclude(self) end
end

return checkpoints
