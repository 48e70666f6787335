--- Predicts memory and traffic of experts that P ranks share (expert_parallel_size): the weights of
-- one rank's experts, which ZeRO does not shard, and the bytes sent. X: parameters of all experts.
--
-- A rank has X / P of the parameters, with their gradients and optimizer state, for every
-- zero_stage. The rest of the model is not affected.
--
-- Let a rank have T tokens, K experts per token and D features of e bytes. With an even load it
-- sends T K (P - 1) / P rows to other ranks' experts, and as many come back; the backward sends the
-- same again. The numbers of rows are sent first, 8 bytes per expert of another rank
-- (comm/bin_exchange.h).

---@class moonring.expert_share
local expert_share = {}

--- The number of ranks that share the experts; 1 if they are not shared, or there are none.
---@param f moonring.MemoryFacts
---@return integer
function expert_share.ranks(f)
  return f.model.expert_parameters and f.expert_ranks or 1
end

--- Parameters of this rank's experts: trainable and frozen ones. Both are 0 if experts are not
--- shared, since they are then counted with all other weights.
---@param f moonring.MemoryFacts
---@return number learns
---@return number frozen
function expert_share.own(f)
  local ranks, m = expert_share.ranks(f), f.model
  if ranks == 1 then return 0, 0 end
  local learning = m.blocks > 0 and f.learns.blocks / m.blocks or 0
  local own = m.expert_parameters / ranks
  return own * learning, own * (1 - learning)
end

--- The facts of the model without the experts of other ranks; if `with_own` is false, without this
--- rank's experts, too.
---@param f moonring.MemoryFacts
---@param with_own boolean
---@return moonring.MemoryFacts
function expert_share.rest(f, with_own)
  local ranks, m = expert_share.ranks(f), f.model
  if ranks == 1 then return f end
  local gone = m.expert_parameters * (with_own and 1 - 1 / ranks or 1)
  local part = (m.blocks - gone) / m.blocks
  local learns = { embedding = f.learns.embedding, head = f.learns.head,
    blocks = f.learns.blocks * part }
  return setmetatable({ learns = learns,
    model = setmetatable({ blocks = m.blocks - gone }, { __index = m }) }, { __index = f })
end

--- Bytes per step that a rank sends to exchange token rows with other ranks' experts, on average.
---@param f moonring.MemoryFacts
---@param element_bytes number of a product's element
---@return number
function expert_share.traffic(f, element_bytes)
  local ranks, m = expert_share.ranks(f), f.model
  if ranks == 1 then return 0 end
  local others = (ranks - 1) / ranks
  local move = f.tokens / f.sp * m.chosen * others * m.hidden * element_bytes
  local forward = 8 * m.experts * others + 2 * move
  local backward = (f.recompute == "none" and 0 or forward) + 2 * move
  local goes_down = (f.depth or m.layers) / m.layers -- fraction of the layers
  return f.micro_batches * m.expert_layers * ((f.reference and 2 or 1) * forward
    + goes_down * backward)
end

return expert_share
