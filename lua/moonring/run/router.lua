--- The load-balancing loss of a mixture of experts (moe_aux_loss_coef), as Transformers and LLaMA-Factory have it: of each group of
-- per_device_train_batch_size examples, coefficient x E x sum_e f_e P_e over the tokens of all layers with a router, added to the step's mean.
--
-- f_e, the part of the choices that fall on expert e, has no gradient; so with f known the loss is a sum over tokens, which any division over
-- micro-batches and ranks leaves as it is. f is known by a pass over the whole step without gradients, with the same randomness, before its first backward.
local objectives = require "moonring.native.objectives"
local options = require "moonring.config.options"
local tensor = require "moonring.native.tensor"

local router = {}
local Router = {}
Router.__index = Router

--- Options: model, coefficient, size (examples of a group).
function router.new(given)
  options.check("router.new", given, { model = "any", coefficient = "number", size = "number" })
  local experts, chosen = given.model:experts()
  return setmetatable({ coefficient = given.coefficient, size = given.size, experts = experts,
    chosen = chosen }, Router)
end

--- What each router probability counts in the loss, fp64 [groups, experts], from how often each expert was chosen, over all ranks.
function Router:weights(chosen) return objectives.router_weights(chosen, { coefficient = self.coefficient, per_token = self.chosen }) end

--- Lets a batch of a step of `examples` examples tally what its routers do.
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

--- The weights of a step. `size`: examples of a group; `alone`: the step is this dp rank's own. Every rank of the step must call it.
function Router:survey(runtime, step, noise, size, alone)
  local groups = math.ceil(step:size() / (size or self.size))
  local chosen -- where the model is, until all are counted
  for _, micro in ipairs(runtime:micro_batches(step:micro_batches())) do
    chosen = tensor.scope(tensor.no_grad, function()
      local batch = self:watch(runtime:batch(micro), step:size(), size)
      batch:hidden(runtime.model, noise)
      local counted = batch.tally.chosen:to "fp64"
      return chosen and chosen + counted or counted
    end)
  end
  local rows = chosen and tensor.fetch({ chosen })[1] or none(groups, self.experts)
  local total = runtime.mesh:sum_sp(tensor.tensor(rows, "fp64"))
  return self:weights(alone and total or runtime.mesh:sum_dp(total))
end

--- A batch's share of the loss: to be added over micro-batches and all ranks.
function Router:loss(batch, weights)
  local probability = batch.tally.probability
  return (probability * weights:to(probability:dtype()):on(probability)):sum()
end

return router
