--- Reduces micro-batches until they fit into memory (auto_find_batch_size). If memory runs out in
-- the forward or backward of a step, micro_batch_tokens is halved until some rank has more, smaller
-- micro-batches, and the step is repeated from its beginning. Each step keeps its examples, so the
-- results are those of a run with the smaller value from the start.
--
-- This needs a single rank, or ranks that do not communicate during a step: sequence_parallel_size
-- is 1, and ranks do not share weights or gradients while they compute (as they do with zero_stage
-- 2 and 3 and with experts). In other runs the remaining ranks would wait for the one that failed,
-- so such a run ends with the error.
local errors = require "moonring.base.errors"
local counts = require "moonring.choices.counts"

---@class moonring.fitting
local fitting = {}

---@class moonring.FittingSteps
---@field steps moonring.Steps
---@field config moonring.Configuration
---@field mesh moonring.Mesh
---@field packed integer the token limit with which `steps` makes micro-batches
---@field tokens integer the token limit that fits into memory
---@field say fun(line: string)
local Steps = {}
Steps.__index = Steps

local WORDS = { "out of memory", "can't allocate memory", "not enough memory", "_alloc_failed" }

--- Whether an error means that memory ran out, and not a disk or another limit.
---@param why any the error that pcall returned
---@return boolean
function fitting.ran_out(why)
  if not errors.is(why, "RESOURCE_EXHAUSTED") then return false end
  local words = errors.words(why):lower()
  for _, each in ipairs(WORDS) do
    if words:find(each, 1, true) then return true end
  end
  return false
end

--- Whether a step can be repeated after one rank ran out of memory: no other rank may then be
--- waiting for that rank.
---@param mesh moonring.Mesh
---@param states? moonring.States
---@return boolean
function fitting.possible(mesh, states)
  return mesh:size() == 1 or mesh:sp_size() == 1 and not (states and states:lockstep())
end

--- Restores the reduced micro_batch_tokens of the resumed run. Call it before micro_batch_tokens is
--- used.
---@param c moonring.Configuration
---@param resumed? moonring.Resumed
---@return string? said a line for the log
function fitting.go_on(c, resumed)
  local kept = c.auto_find_batch_size and resumed and resumed.parts.micro_batches
  if not kept or kept.tokens >= counts.micro_batch_tokens(c) then return nil end
  c.micro_batch_tokens = kept.tokens
  return ("auto_find_batch_size: micro_batch_tokens: %d, as the checkpoint's run had found it")
    :format(kept.tokens)
end

--- Wraps steps so that their micro-batches can be made smaller later.
---@param steps moonring.Steps
---@param c moonring.Configuration its micro_batch_tokens is kept up to date
---@param mesh moonring.Mesh
---@param say fun(line: string) logs a line
---@return moonring.FittingSteps
function fitting.new(steps, c, mesh, say)
  local tokens = counts.micro_batch_tokens(c)
  return setmetatable({ steps = steps, config = c, mesh = mesh, packed = tokens, tokens = tokens,
    say = say }, Steps)
end

--- The next step; nil after the last.
---@return moonring.Step?
function Steps:next()
  local step = self.steps:next()
  if not step or self.tokens >= self.packed then return step end
  return step:repacked(self.tokens, self.mesh)
end

-- Whether any rank has a micro-batch with several examples, which can be divided.
local function divides(self, step)
  local most = 0
  for _, micro in ipairs(step:micro_batches()) do most = math.max(most, #micro:examples()) end
  return self.mesh:max(most) > 1
end

--- Divides a step into more micro-batches on at least one rank. Collective over all ranks. Errors:
--- RESOURCE_EXHAUSTED, with `why` and the step, if each micro-batch already has only one example.
---@param step moonring.Step
---@param why string
---@param k integer the step's number
---@return moonring.Step
function Steps:smaller(step, why, k)
  local before = self.tokens
  local had = #step:micro_batches()
  local again
  repeat
    if self.tokens == 1 or not divides(self, step) then
      errors.raise("RESOURCE_EXHAUSTED", "step ", k, ": ", errors.words(why),
        "; auto_find_batch_size: each example goes through a forward alone already")
    end
    self.tokens = math.floor(self.tokens / 2)
    again = step:repacked(self.tokens, self.mesh)
  until self.mesh:max(#again:micro_batches() ~= had and 1 or 0) > 0
  self.config.micro_batch_tokens = self.tokens
  self.say(("step %d: memory ran out (%s); auto_find_batch_size: micro_batch_tokens was %d, is %d "
    .. "from here on, and the step is made again"):format(k, errors.words(why), before,
    self.tokens))
  return again
end

--- The position in the data.
---@return string
function Steps:save_state() return self.steps:save_state() end

--- Moves to a saved position.
---@param state string
function Steps:load_state(state) self.steps:load_state(state) end

--- The component for Run:track, through which checkpoints store the reduced number of tokens.
---@return moonring.Part
function Steps:part()
  return { state = function() return { tokens = self.tokens } end,
    load_state = function() end } -- read by fitting.go_on
end

return fitting
