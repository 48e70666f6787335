---@meta moonring.router

--- The load-balancing loss of a mixture of experts (moe_aux_loss_coef), as Transformers and LLaMA-Factory have it: of each group of examples, coefficient x E x
--- sum_e f_e P_e over the tokens of all layers with a router, f_e the part of the choices that fall on expert e and P_e its mean probability.
---@class moonring.router
local router = {}

---@class moonring.RouterOptions
---@field model moonring.Model with experts
---@field coefficient number
---@field size integer examples of a group: per_device_train_batch_size

--- What balances the experts of a model.
---@param given moonring.RouterOptions
---@return moonring.Router
function router.new(given) end

---@class moonring.Router
---@field coefficient number
---@field size integer
---@field experts integer of a layer
---@field chosen integer of them, for each token
local Router = {}

--- What each router probability counts in the loss.
---@param chosen moonring.Tensor fp64 [groups, experts]: how often each expert was chosen, over all ranks
---@return moonring.Tensor fp64 [groups, experts]
function Router:weights(chosen) end

--- Lets a batch tally what its routers do, and returns it.
---@param batch moonring.Batch
---@param examples integer of the step that it belongs to
---@param size? integer examples of a group; the router's own where absent
---@return moonring.Batch
function Router:watch(batch, examples, size) end

--- The weights of a step, by a pass over all of it without gradients. Collective over all ranks, or over sp where `alone`.
---@param runtime moonring.Runtime
---@param step moonring.Step
---@param noise? table { seed, step, neftune_alpha }, as the step's own forwards have it
---@param size? integer examples of a group; the router's own where absent
---@param alone? boolean the step is this dp rank's own
---@return moonring.Tensor fp64 [groups, experts]
function Router:survey(runtime, step, noise, size, alone) end

--- A watched batch's share of the loss, after its forward: to be added over micro-batches and all ranks.
---@param batch moonring.Batch
---@param weights moonring.Tensor of the step
---@return moonring.Tensor of shape []
function Router:loss(batch, weights) end

return router
