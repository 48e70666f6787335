--- Switches the model between the weights that are trained and the "shown" weights, which are
-- evaluated and saved. They differ with schedule-free optimizers (which show an average), and with
-- local_steps (which shows the weights of the last synchronization of all groups).

---@class moonring.shown_weights
local shown_weights = {}

---@class moonring.ShownWeightsOptions
---@field states moonring.States
---@field optimizer moonring.Optimizer
---@field rounds? moonring.Rounds with local SGD (local_steps)

---@class moonring.ShownWeights: moonring.ShownWeightsOptions
---@field rests? boolean whether `rest` was called: the weights are not switched any more
local ShownWeights = {}
ShownWeights.__index = ShownWeights

--- Creates the switch of a run. At first the trained weights are in place.
---@param parts moonring.ShownWeightsOptions
---@return moonring.ShownWeights
function shown_weights.new(parts)
  return setmetatable({ states = parts.states, optimizer = parts.optimizer,
    rounds = parts.rounds }, ShownWeights)
end

-- Puts the shown weights (shown = true) or the trained ones into place. Returns whether any weight
-- was written. A custom optimizer may have no `average`; then both are the same.
local function turn(self, shown)
  if self.rests then return false end
  if self.rounds then return self.rounds:show(shown) end
  local optimizer = self.optimizer
  return optimizer.average and optimizer:average(shown)
end

--- Calls f while the shown weights, for evaluation and saving, are in place. Collective over all
--- ranks.
---@param f function
---@param ... any its arguments
---@return any its first result
function ShownWeights:with(f, ...)
  local turned = turn(self, true)
  if turned then self.states:publish() end
  local result = f(...)
  if turned then self:learn() end
  return result
end

--- Calls f like `with`, but the shown weights stay in place until `learn` is called. Switching back
--- and forth rounds the weights; without it, two saves at the same step, such as the last
--- checkpoint and the final model, are equal bit for bit. Collective over all ranks.
---@param f function
---@param ... any its arguments
---@return any its first result
function ShownWeights:keep(f, ...)
  if turn(self, true) then self.states:publish() end
  return (f(...))
end

--- Puts the trained weights into place. Collective over all ranks.
function ShownWeights:learn()
  if turn(self, false) then self.states:publish() end
end

--- Finishes the synchronization of local_steps that is in progress. Call it after the last step.
--- Collective over all ranks.
function ShownWeights:finish()
  if not self.rounds then return end
  self:learn()
  if self.rounds:finish() then self.states:publish() end
end

--- Stops all switching. Called when the training has ended and the weights must not change any
--- more.
function ShownWeights:rest() self.rests = true end

return shown_weights
