--- Micro-batches that memory is enough for (auto_find_batch_size). Where it runs out in a step's
-- forward or backward, micro_batch_tokens is halved, until the step has other micro-batches on some
-- rank, and the step is made again from its beginning. A step keeps its examples, so its numbers
-- are those that the smaller value gives from the start.
--
-- That is possible where each rank makes its part of a step alone: sequence_parallel_size 1, and no
-- weights or gradients that ranks share while they compute (zero_stage 2 and 3, experts); or one
-- rank. Elsewhere the others wait for the one that failed, and the run ends as ever.
local errors = require "moonring.base.errors"
local counts = require "moonring.choices.counts"

---@class moonring.fitting
local fitting = {}

---@class moonring.FittingSteps
---@field steps moonring.Steps
---@field config moonring.Configuration
---@field mesh moonring.Mesh
---@field packed integer tokens of a micro-batch that `steps` makes, at most
---@field tokens integer those that there is memory for
---@field say fun(line: string)
local Steps = {}
Steps.__index = Steps

local WORDS = { "out of memory", "can't allocate memory", "not enough memory", "_alloc_failed" }

--- Whether a caught error says that memory has run out, and not a disk or another limit.
---@param why any what pcall returned
---@return boolean
function fitting.ran_out(why)
  if not errors.is(why, "RESOURCE_EXHAUSTED") then return false end
  local words = errors.words(why):lower()
  for _, each in ipairs(WORDS) do
    if words:find(each, 1, true) then return true end
  end
  return false
end

--- Whether a rank that ran out of memory leaves the others able to go on.
---@param mesh moonring.Mesh
---@param states? moonring.States
---@return boolean
function fitting.possible(mesh, states)
  return mesh:size() == 1 or mesh:sp_size() == 1 and not (states and states:lockstep())
end

--- Before anything depends on it: micro_batch_tokens as a run that goes on had found it.
---@param c moonring.Configuration
---@param resumed? moonring.Resumed
---@return string? said for the log
function fitting.go_on(c, resumed)
  local kept = c.auto_find_batch_size and resumed and resumed.parts.micro_batches
  if not kept or kept.tokens >= counts.micro_batch_tokens(c) then return nil end
  c.micro_batch_tokens = kept.tokens
  return ("auto_find_batch_size: micro_batch_tokens: %d, as the checkpoint's run had found it")
    :format(kept.tokens)
end

--- Steps whose micro-batches may be made smaller.
---@param steps moonring.Steps
---@param c moonring.Configuration whose micro_batch_tokens follows
---@param mesh moonring.Mesh
---@param say fun(line: string) takes a line for the log
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

-- Whether any rank has a micro-batch of several examples.
local function divides(self, step)
  local most = 0
  for _, micro in ipairs(step:micro_batches()) do most = math.max(most, #micro:examples()) end
  return self.mesh:max(most) > 1
end

--- The step again, in more micro-batches on some rank. Collective over all ranks. Errors:
--- RESOURCE_EXHAUSTED, `why`'s words with the step, where each example goes alone already.
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

--- Where the data stands.
---@return string
function Steps:save_state() return self.steps:save_state() end

--- Goes there.
---@param state string
function Steps:load_state(state) self.steps:load_state(state) end

--- What a checkpoint keeps as a part of the run.
---@return moonring.Part
function Steps:part()
  return { state = function() return { tokens = self.tokens } end,
    load_state = function() end } -- fitting.go_on has read it
end

return fitting
