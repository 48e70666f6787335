--- The load-balancing loss of a mixture of experts (moe_aux_loss_coef), as in Transformers, TRL and
-- LLaMA-Factory. For each group of per_device_train_batch_size examples it is
--   coefficient x E x sum_e f_e P_e
-- over the tokens of all layers with a router: E experts, f_e the fraction of choices that fall on
-- expert e, P_e the mean probability of e. The sum over the groups (pt, sft) or their mean (dpo,
-- kto) is added to the step's loss. Both answers of a pair are included; of KTO's examples only the
-- rated answers, not the mismatched ones.
--
-- f_e has no gradient. Once f is known, the loss is a sum over tokens, so it does not depend on how
-- they are divided over micro-batches and ranks. f is computed by a pass over the whole step
-- without gradients, with the same random numbers, before the step's first backward.
local autograd = require "moonring.native.autograd"
local forward = require "moonring.run.forward"
local objectives = require "moonring.native.objectives"
local options = require "moonring.base.options"
local stages = require "moonring.choices.stages"
local tensor = require "moonring.native.tensor"

---@class moonring.router
local router = {}

---@class moonring.RouterOptions
---@field model moonring.Model with experts
---@field coefficient number
---@field size integer examples per group: per_device_train_batch_size
---@field mean? boolean uses the mean of the groups' losses, not the sum; default false

---@class moonring.Router
---@field coefficient number
---@field size integer
---@field mean boolean
---@field experts integer per layer
---@field chosen integer experts per token
local Router = {}
Router.__index = Router

--- The load-balancing loss of a configuration's policy; nil if it has none.
---@param c moonring.Configuration
---@param policy moonring.Model
---@return moonring.Router?
function router.of(c, policy)
  local coefficient = c.moe_aux_loss_coef or 0
  if coefficient == 0 or not stages.of(c).balances then return nil end
  if policy:experts() == 0 then
    c.notes[#c.notes + 1] = "moe_aux_loss_coef: no effect: the model has no experts"
    return nil
  end
  return router.new { model = policy, coefficient = coefficient,
    size = c.per_device_train_batch_size, mean = stages.of(c).balances == "mean" }
end

--- Creates the load-balancing loss of a model with experts.
---@param given moonring.RouterOptions
---@return moonring.Router
function router.new(given)
  options.check("router.new", given, { model = "any", coefficient = "number", size = "number",
    mean = "boolean?" })
  local experts, chosen = given.model:experts()
  return setmetatable({ coefficient = given.coefficient, size = given.size, experts = experts,
    chosen = chosen, mean = given.mean or false }, Router)
end

--- The weight by which each router probability is multiplied in the loss.
---@param chosen moonring.Tensor fp64 [groups, experts]: how often each was chosen, on all ranks
---@return moonring.Tensor fp64 [groups, experts]
function Router:weights(chosen)
  local groups = self.mean and chosen:size(0) or 1
  return objectives.router_weights(chosen,
    { coefficient = self.coefficient / groups, per_token = self.chosen })
end

--- Requests that the forward of a batch sums the routers' decisions. Returns the batch.
---@param batch moonring.Batch
---@param examples integer in the whole step
---@param size? integer examples per group; default: the router's
---@return moonring.Batch
function Router:watch(batch, examples, size)
  size = size or self.size
  batch.router = { size = size, groups = math.ceil(examples / size) }
  return batch
end

local function none(groups, experts)
  local row, rows = {}, {}
  for e = 1, experts do row[e] = 0 end
  for g = 1, groups do rows[g] = row end
  return rows
end

--- The weights for Router:loss of a step, computed by a pass over the whole step without gradients.
--- Collective over all ranks, or with `alone` over the sp group.
---@param engine moonring.Engine
---@param step moonring.Step
---@param noise? table { seed, step, neftune_alpha }, the same as in the step's forwards
---@param size? integer examples per group; default: the router's
---@param alone? boolean only this dp rank has this step
---@return moonring.Tensor fp64 [groups, experts]
function Router:survey(engine, step, noise, size, alone)
  local groups = math.ceil(step:size() / (size or self.size))
  local chosen -- on the model's device until all are counted
  for _, micro in ipairs(engine:micro_batches(step:micro_batches())) do
    chosen = tensor.scope(autograd.no_grad, function()
      local batch = self:watch(engine:batch(micro), step:size(), size)
      forward.hidden(engine, batch, noise)
      local counted = batch.tally.chosen:to "fp64"
      return chosen and chosen + counted or counted
    end)
  end
  local rows = chosen and tensor.fetch({ chosen })[1] or none(groups, self.experts)
  local total = engine.mesh:sum_sp(tensor.tensor(rows, "fp64"))
  return self:weights(alone and total or engine.mesh:sum_dp(total))
end

--- The load-balancing loss of one batch after its forward, for which `watch` was called. It must be
--- summed over micro-batches and all ranks, at token level and at sequence level.
---@param batch moonring.Batch
---@param weights moonring.Tensor of the step
---@return moonring.Tensor of shape []
function Router:loss(batch, weights)
  local probability = batch.tally.probability
  return (probability * weights:to(probability:dtype()):on(probability)):sum()
end

return router
