---@meta moonring.native.attention

--- Causal attention inside each document of a packed stream, spread over the ranks of an sp group.
---@class moonring.attention
local attention = {}

---@alias moonring.Strategy
---| "zigzag-ring" # keys travel, ranks own early and late parts of a document: equal work (the zigzag order of Ring Flash Attention, of Llama 3's context parallelism)
---| "ring" # keys travel, each rank owns one run of the stream: later ranks do more (Ring Attention, arXiv:2310.01889)
---| "ulysses" # heads are split by an all-to-all (DeepSpeed Ulysses, arXiv:2309.14509); any number of heads
---| "dense" # one rank

---@class moonring.AttentionOptions
---@field mesh moonring.Mesh the strategy works over its sp axis
---@field strategy? moonring.Strategy "zigzag-ring" where absent; all are the same on one rank

--- A strategy on a mesh. Collective over the sp group in what its plans do, not here.
--- Errors: INVALID_ARGUMENT for an unknown name (the known ones are listed), and for "dense" on several ranks.
---@param options moonring.AttentionOptions
---@return moonring.Attention
function attention.create(options) end

---@class moonring.Attention
local Attention = {}

--- The strategy that runs ("dense" under any name on one rank).
---@return string
function Attention:name() end

--- How a stream of documents is spread over the sp group.
---@param sequence moonring.Sequence
---@return moonring.Layout
function Attention:layout(sequence) end

--- This rank's share of a micro-batch, all by one layout, and the plan by which its attention runs. Shares may be empty: a rank
--- without tokens makes the same calls all the same.
---@param sequence moonring.Sequence
---@return moonring.Tensor ids int64 [T_local]
---@return moonring.Tensor positions int64 [T_local]
---@return moonring.Tensor targets int64 [T_local]
---@return moonring.AttentionPlan plan
function Attention:cut(sequence) end

function Attention:close() end

--- One micro-batch's plan on this rank, shared by all layers of a model.
---@class moonring.AttentionPlan
local AttentionPlan = {}

--- out_t = sum_s softmax_s(scale q_t . k_s) v_s over the tokens s <= t of t's document. Differentiable. Collective over the sp group: every rank
--- makes the same calls in the same order.
---@param q_THD moonring.Tensor [T_local, H, D], rotary embedding applied; fp32, bf16 or fp64
---@param k_TKD moonring.Tensor [T_local, Hk, D]; Hk divides H
---@param v_TKD moonring.Tensor [T_local, Hk, D]
---@param scale number usually 1 / sqrt(D)
---@return moonring.Tensor out_THD [T_local, H, D] in q's dtype
function AttentionPlan:forward(q_THD, k_TKD, v_TKD, scale) end

function AttentionPlan:close() end

return attention
