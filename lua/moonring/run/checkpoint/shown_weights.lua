--- Switches the model between the weights that are trained and those that are evaluated and saved.
-- They differ with schedule-free optimizers, and with local_steps (the weights common to all
-- groups).

---@class moonring.shown_weights
local shown_weights = {}

---@class moonring.ShownWeightsOptions
---@field states moonring.States
---@field optimizer moonring.Optimizer
---@field rounds? moonring.Rounds with local SGD (local_steps)

---@class moonring.ShownWeights: moonring.ShownWeightsOptions
---@field rests? boolean
local ShownWeights = {}
ShownWeights.__index = ShownWeights

--- The switch of a run. The trained weights are in place at first.
---@param parts moonring.ShownWeightsOptions
---@return moonring.ShownWeights
function shown_weights.new(parts)
  return setmetatable({ states = parts.states, optimizer = parts.optimizer,
    rounds = parts.rounds }, ShownWeights)
end

-- Puts the shown or the trained weights into place. Returns whether any weight was written. A
-- custom optimizer may have no `average`.
local function turn(self, shown)
  if self.rests then return false end
  if self.rounds then return self.rounds:show(shown) end
  local optimizer = self.optimizer
  return optimizer.average and optimizer:average(shown)
end

--- Calls f with the weights for evaluation and saving in place. Collective over all ranks.
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

--- The same, but these weights stay in place until `learn`. Two saves without a step in between,
--- such as the last checkpoint and the final model, are then equal bit for bit, since switching
--- back and forth would round. Collective over all ranks.
---@param f function
---@param ... any its arguments
---@return any its first result
function ShownWeights:keep(f, ...)
  if turn(self, true) then self.states:publish() end
  return (f(...))
end

--- Puts the weights that are trained into place. Collective over all ranks.
function ShownWeights:learn()
  if turn(self, false) then self.states:publish() end
end

--- Call it after the last step: finishes the work of local_steps that is in progress. Collective
--- over all ranks.
function ShownWeights:finish()
  if not self.rounds then return end
  self:learn()
  if self.rounds:finish() then self.states:publish() end
end

--- Stops switching: the training has ended, and the weights stay unchanged.
function ShownWeights:rest() self.rests = true end

return shown_weights
