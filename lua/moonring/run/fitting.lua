--- Reduces micro-batches until they fit into memory (auto_find_batch_size). If memory runs out in a
-- step's forward or backward, micro_batch_tokens is halved until the micro-batches of some rank
-- change, and the step is repeated from its beginning. The examples of a step do not change, so the
-- results are those of a run that has the smaller value from the start.
--
-- This needs ranks that do not communicate during a step: sequence_parallel_size 1, and no weights
-- or gradients that ranks share while they compute (zero_stage 2 and 3, experts); or a single rank.
-- Otherwise the other ranks would wait for the one that failed, so the run ends with the error.
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

--- Whether the other ranks can continue when one runs out of memory.
---@param mesh moonring.Mesh
---@param states? moonring.States
---@return boolean
function fitting.possible(mesh, states)
  return mesh:size() == 1 or mesh:sp_size() == 1 and not (states and states:lockstep())
end

--- Restores micro_batch_tokens as the resumed run had reduced it. Call it before the value is used.
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

--- Wraps steps so that their micro-batches can be made smaller.
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

--- The same step, in more micro-batches on some rank. Collective over all ranks. Errors:
--- RESOURCE_EXHAUSTED, with `why` and the step, if each micro-batch already has one example.
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

--- The component whose state a checkpoint stores.
---@return moonring.Part
function Steps:part()
  return { state = function() return { tokens = self.tokens } end,
    load_state = function() end } -- read by fitting.go_on
end

return fitting
