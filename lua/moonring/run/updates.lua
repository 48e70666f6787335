--- From a step to new weights: its gradient, clipped by max_grad_norm and by its norm's history
-- (spike_clip), and the optimizer's step. A step whose loss or gradient is not finite updates
-- nothing: it ends the run, or is left out (on_nonfinite). So is a step with nothing to learn (no
-- label in it but -100, no example, a count of 0), whatever on_nonfinite says: weights, momentum
-- and decay stay as they are, the schedule goes on.
local errors = require "moonring.errors"
local nonfinite = require "moonring.run.nonfinite"
local options = require "moonring.config.options"
local trainer = require "moonring.native.trainer"

---@class moonring.updates
local updates = {}

---@class moonring.UpdatesOptions
---@field engine moonring.Engine
---@field states moonring.States
---@field optimizer moonring.Optimizer
---@field say fun(line: string) takes a line for the log

---@class moonring.Updates
---@field skipped integer steps left out so far
---@field in_a_row integer those at the end of them whose loss or gradient was not finite
---@field told? boolean whether a step with nothing to learn was spoken of
---@field skips boolean on_nonfinite: skip
---@field rests? boolean
---@field max_norm number
---@field zclip? moonring.ZClip
---@field engine moonring.Engine
---@field states moonring.States
---@field optimizer moonring.Optimizer
---@field say fun(line: string)
local Updates = {}
Updates.__index = Updates

local PARTS = { engine = "table", states = "any", optimizer = "any", say = "function" }
-- Steps left out one after another, after which the weights themselves must be other than finite.
local IN_A_ROW = 10

--- The updates of a run.
---@param c moonring.Configuration
---@param parts moonring.UpdatesOptions
---@return moonring.Updates
function updates.new(c, parts)
  options.check("updates.new", parts, PARTS)
  local skips = c.on_nonfinite == "skip"
  parts.engine.tolerant = skips
  return setmetatable({ engine = parts.engine, states = parts.states, optimizer = parts.optimizer,
    say = parts.say, skips = skips, max_norm = c.max_grad_norm, skipped = 0, in_a_row = 0,
    zclip = c.spike_clip == "zclip" and trainer.zclip() or nil }, Updates)
end

--- Scales the gradient down to max_grad_norm, and by spike_clip. Errors: ABORTED, naming
--- parameters, where the norm is not finite. Collective over all ranks.
---@return number norm before clipping
function Updates:clip()
  local norm = self.states:norm()
  local limit = self.max_norm > 0 and self.max_norm or math.huge
  if self.zclip then limit = math.min(limit, self.zclip:limit(norm)) end
  self.states:clip { norm = norm, max_norm = limit < math.huge and limit or 0 }
  return norm
end

--- What a loop of one's own does after its backward: sums the gradients over all ranks, clips them,
--- makes the optimizer's step, publishes the weights and clears the gradients. Collective over all
--- ranks. Errors: as clip's.
---@param lr number
---@return number norm before clipping
function Updates:apply(lr)
  self.states:sum_gradients() -- nothing is averaged
  local norm = self:clip()
  self.optimizer:step(lr)
  self.states:publish()
  self.states:clear_gradients()
  return norm
end

local function leave_out(self, fault)
  if not self.skips then error(fault .. "; stopped before the update", 0) end
  self.skipped, self.in_a_row = self.skipped + 1, self.in_a_row + 1
  if self.in_a_row == IN_A_ROW then
    error(fault .. ("; %d steps in a row were left out: stopped"):format(IN_A_ROW), 0)
  end
  self.engine:take_back()
  self.say(errors.words(fault) .. "; the step is left out")
end

-- Said once: data may hold many such steps, and skipped_steps counts them.
local function pass_over(self, k, why)
  self.skipped = self.skipped + 1
  if self.told then return end
  self.told = true
  self.say(("step %d has nothing to learn: %s. It is left out: no update, no weight decay, counted "
    .. "in skipped_steps; so is every such step"):format(k, why))
end

-- An optimizer of a script's own may have a step alone.
local function turn(self, average)
  local optimizer = self.optimizer
  return not self.rests and optimizer.average and optimizer:average(average)
end

--- Calls f with the weights that the model is evaluated and saved by, where they are not those that
--- learn (schedule-free optimizers). Collective over all ranks.
---@param f function
---@param ... any its arguments
---@return any its first result
function Updates:averaged(f, ...)
  local turned = turn(self, true)
  if turned then self.states:publish() end
  local result = f(...)
  if turned then self:learn() end
  return result
end

--- The weights that learn are in place from here on. Collective over all ranks.
function Updates:learn()
  if turn(self, false) then self.states:publish() end
end

--- There is nothing more to learn: the weights stay what they are.
function Updates:rest() self.rests = true end

--- Makes a step: backward, clip, the optimizer's step, publish. One with nothing to learn is left
--- out: no update, no decay, said once. Errors: ABORTED, naming step, examples, and layer or
--- parameters, where the loss or the gradient's norm is not finite and on_nonfinite is stop, or ten
--- steps in a row were left out. Collective over all ranks.
---@param step moonring.Step
---@param k integer its number
---@param lr number
---@return { loss: number?, metrics: table?, norm: number? } update nothing where it was left out
function Updates:make(step, k, lr)
  self:learn() -- a checkpoint has the average
  local loss, metrics, fault = self.engine:backward(step, k)
  if not loss then
    pass_over(self, k, fault)
    return {}
  end
  local norm
  if not fault then
    local ok, result = pcall(self.clip, self)
    if ok then
      norm = result
    elseif errors.is(result, "ABORTED") then
      fault = nonfinite.of_gradient(step, result, k)
    else
      error(result, 0)
    end
  end
  if fault then
    leave_out(self, fault)
  else
    self.in_a_row = 0
    self.optimizer:step(lr)
    self.states:publish()
  end
  self.states:clear_gradients()
  return fault and {} or { loss = loss, metrics = metrics, norm = norm }
end

--- What of this a checkpoint holds.
---@return table
function Updates:state()
  return { skipped = self.skipped, in_a_row = self.in_a_row,
    zclip = self.zclip and self.zclip:state() }
end

--- Goes on from what a checkpoint held.
---@param state table what state() gave
function Updates:load_state(state)
  self.skipped, self.in_a_row = state.skipped, state.in_a_row
  if self.zclip and state.zclip then self.zclip:load_state(state.zclip) end
end

return updates
