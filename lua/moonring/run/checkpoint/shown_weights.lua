--- Which weights are in the model: those that learn, or those that it is evaluated and saved by,
-- where these are others (schedule-free optimizers, and the common point of rounds).

---@class moonring.shown_weights
local shown_weights = {}

---@class moonring.ShownWeightsOptions
---@field states moonring.States
---@field optimizer moonring.Optimizer
---@field rounds? moonring.Rounds where sp groups make steps of their own

---@class moonring.ShownWeights: moonring.ShownWeightsOptions
---@field rests? boolean
local ShownWeights = {}
ShownWeights.__index = ShownWeights

--- Those of a run. They are the ones that learn, at first.
---@param parts moonring.ShownWeightsOptions
---@return moonring.ShownWeights
function shown_weights.new(parts)
  return setmetatable({ states = parts.states, optimizer = parts.optimizer,
    rounds = parts.rounds }, ShownWeights)
end

-- Puts the one or the other into place. Gives whether any was written. An optimizer of a script's
-- own may have a step alone.
local function turn(self, shown)
  if self.rests then return false end
  if self.rounds then return self.rounds:show(shown) end
  local optimizer = self.optimizer
  return optimizer.average and optimizer:average(shown)
end

--- Calls f with the weights that the model is evaluated and saved by. Collective over all ranks.
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

--- The same, but the weights stay in place until `learn`: what is saved twice with no step between,
--- as a checkpoint at a run's end and its model, is then the same bit for bit. (To turn there and
--- back rounds.) Collective over all ranks.
---@param f function
---@param ... any its arguments
---@return any its first result
function ShownWeights:keep(f, ...)
  if turn(self, true) then self.states:publish() end
  return (f(...))
end

--- The weights that learn are in place from here on. Collective over all ranks.
function ShownWeights:learn()
  if turn(self, false) then self.states:publish() end
end

--- After the last step: what rounds still have under way acts. Collective over all ranks.
function ShownWeights:finish()
  if not self.rounds then return end
  self:learn()
  if self.rounds:finish() then self.states:publish() end
end

--- There is nothing more to learn: the weights stay what they are.
function ShownWeights:rest() self.rests = true end

return shown_weights
