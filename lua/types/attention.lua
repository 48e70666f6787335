---@meta moonring.native.attention

--- Causal attention inside each document of a packed stream, spread over the ranks of an sp group.
---@class moonring.attention
local attention = {}

--- A name of the table in attention/strategies.cc: "zigzag-ring", "ring", "ulysses", "all-gather",
--- "usp", ...; attention/strategies.h says what each does.
---@alias moonring.Strategy string

--- What a strategy is told. Degrees and windows of 0, or absent, are chosen.
---@class moonring.StrategyOptions
---@field strategy? moonring.Strategy "zigzag-ring" where absent; all are the same on one rank
---@field ulysses_degree? integer usp: ranks over which heads are split
--- usp: ranks over which keys travel; the product of the degrees is the number of ranks
---@field ring_degree? integer
--- usp: the axis whose ranks are neighbours; "head_first" where absent
---@field placement? "head_first" | "context_first"
---@field double_ring_window? integer double-ring: ranks of a window, a divisor of the ranks
---@field ranks_per_machine? integer neighbours that share one; 0, or absent: all do
---@field heads? integer query heads
---@field kv_heads? integer a divisor of heads
---@field head_dim? integer
---@field value_dim? integer of v and what comes out; head_dim where absent
--- of q, k and v, for counting bytes; "fp32" where absent
---@field dtype? "fp32" | "bf16" | "fp16" | "fp64"

---@class moonring.AttentionOptions: moonring.StrategyOptions
---@field mesh moonring.Mesh the strategy works over its sp axis
---@field device? "cpu" | "cuda" what "auto" counts with; "cpu" where absent
--- a GPU's: "flash", "cudnn", "flash<8192<=cudnn", with ", cudnn=4096" behind it or without; "auto"
--- or absent: measured
---@field kernels? string
---@field longest? integer tokens of the longest document, as far as kernels are measured
---@field layers? integer that share what cuDNN builds for a length; 1 where absent
--- how layers of linear attention are spread over the ranks; "auto" where absent
---@field mixing? moonring.MixingMode

--- A strategy on a mesh. Where kernels are measured it is collective over the mesh, and waits for
--- the GPU; else it is not, but what its plans do is. Errors:
--- INVALID_ARGUMENT for an unknown name or mode (the known ones are listed), "dense" on several
--- ranks, degrees and windows that do not divide, "auto" without heads.
---@param options moonring.AttentionOptions
---@return moonring.Attention
function attention.create(options) end

---@class moonring.ResolveOptions: moonring.StrategyOptions
---@field ranks integer
---@field kernels? string as create's; checked alone

--- What a strategy comes to on a number of ranks, a grid of contexts x heads.
---@class moonring.ResolvedStrategy
---@field name string the strategy's, "dense" on one rank; "auto" comes to nothing else
---@field words? string "usp of 4 contexts x 2 heads, head first"
---@field contexts? integer places along which keys travel
---@field head_ranks? integer places over which heads are split
---@field ownership? "contiguous" | "zigzag" how a document is divided over the contexts
---@field keys? "ring" | "gather" how keys travel
---@field window? integer contexts of a window of the ring; all of them: a single ring

--- How this CPU multiplies bf16 rows of attention: as they are, or upcast to fp32 where it has no
--- AVX-512 BF16, or where MOONRING_BF16_TILES=fp32 in the environment asks for it, as for a run
--- that was begun on another CPU.
---@return "bf16" | "fp32"
function attention.bf16_tiles() end

--- The names of all strategies.
---@return moonring.Strategy[]
function attention.names() end

--- What a strategy comes to, degrees and windows chosen. Errors: as create's.
---@param options moonring.ResolveOptions
---@return moonring.ResolvedStrategy
function attention.resolve(options) end

---@class moonring.LayoutOptions: moonring.StrategyOptions
---@field ranks integer
---@field lengths integer[] tokens of each document

--- How a strategy spreads a stream of documents over ranks, of causal attention: for counting
--- without a mesh. Errors: as create's, and for "auto", which is no strategy until it has chosen.
---@param options moonring.LayoutOptions
---@return moonring.Layout
function attention.layout(options) end

---@class moonring.CostOptions: moonring.StrategyOptions
---@field ranks integer
---@field lengths integer[] tokens of each document
---@field window? integer tokens that a query sees, itself among them; absent: all before it
--- shifted sparse attention (attention/shifted_attention.h) in place of causal; without a window
---@field shifted? boolean

---@class moonring.Traffic
---@field steps integer peers of each exchange, summed
---@field bytes integer sent
---@field far_bytes integer of these, to ranks of other machines

---@class moonring.RankCost
---@field tile_area number query-key pairs, times the query heads that the rank computes
---@field tokens integer that it owns
---@field peak_bytes integer of buffers, beside inputs, results and what is saved for the backward
---@field forward moonring.Traffic
---@field backward moonring.Traffic

---@class moonring.Cost
---@field [integer] moonring.RankCost by rank, from 1
---@field balance number the greatest tile area over the mean

--- What one layer's attention costs each rank, counted from its plan without running it. No
--- strategy but "auto" is refused.
---@param options moonring.CostOptions
---@return moonring.Cost
function attention.cost(options) end

--- Lists of one number for each document, which count from 1 here as in any list; absent: nothing
--- of the kind.
---@class moonring.MaskOptions
---@field lengths integer[] tokens of each document
---@field prefix? integer[] the first tokens, which all of the document's tokens see
---@field parents? integer[] another document, whose first tokens stand before its own; 0: none
---@field parent_tokens? integer[] how many of the parent's first tokens
---@field window? integer in place of the model's own; 0: none

--- Who sees whom beyond the causal rule (attention/mask.h). `moonring.masks` makes masks from a
--- table that is easier to write. Errors: INVALID_ARGUMENT, naming the document from 0, for what
--- does not fit its documents, and parents in a circle.
---@param options moonring.MaskOptions
---@return moonring.Mask
function attention.mask(options) end

---@class moonring.Mask
local Mask = {}

--- CRC-32 of all that it says: by which ranks tell whether they hold the same.
---@param before? integer that of the masks before it, to go on from
---@return integer
function Mask:checksum(before) end

function Mask:close() end

---@class moonring.Attention
local Attention = {}

--- The strategy that runs ("dense" under any name on one rank).
---@return string
function Attention:name() end

--- Which kernels of a GPU take which documents, as attention_kernels writes it; nil where there is
--- no choice.
---@return string?
function Attention:kernels() end

--- How a stream of documents is spread over the sp group.
---@param sequence moonring.Sequence
---@param masks? moonring.Mask[] as cut's
---@param shifted? boolean as cut's
---@return moonring.Layout
function Attention:layout(sequence, masks, shifted) end

--- This rank's share of a micro-batch, all by one layout, and the plan by which its attention runs.
--- Shares may be empty: a rank without tokens makes the same calls all the same.
--- Every strategy takes every mask. Errors: INVALID_ARGUMENT where masks are of other documents, or
--- there are some and attention is shifted.
---@param sequence moonring.Sequence
---@param masks? moonring.Mask[] layer l, from 0, takes number l % n + 1 of n; absent: causal;
---   the same on all ranks of the sp group
---@param shifted? boolean attention of every layer is shifted sparse attention
---   (attention/shifted_attention.h): groups of a quarter of each document, half of the heads
---   shifted by half a group; false where absent
---@return moonring.Tensor ids int64 [T_local]
---@return moonring.Tensor positions int64 [T_local]
---@return moonring.Tensor targets int64 [T_local]
---@return moonring.AttentionPlan plan
---@return moonring.Layout layout
function Attention:cut(sequence, masks, shifted) end

--- What runs for a micro-batch, in words; of "auto", what it chose, and what the others would have
--- cost.
---@param sequence moonring.Sequence
---@return string words
---@return string? chosen the strategy that "auto" chose; nil where there was no choice
function Attention:describe(sequence) end

--- Heads and their dim are wanted.
---@class moonring.CostOfOptions
---@field heads? integer query heads
---@field kv_heads? integer a divisor of heads
---@field head_dim? integer
---@field value_dim? integer head_dim where absent
---@field dtype? "fp32" | "bf16" | "fp16" | "fp64" of q, k and v; "fp32" where absent
---@field ranks_per_machine? integer neighbours that share one; 0, or absent: all do
---@field shifted? boolean as cut's

--- What a layer's attention over a micro-batch costs each rank, counted from its plan as
--- `moonring.attention.cost` does, of causal attention to all before; nil where documents share
--- prefixes.
---@param sequence moonring.Sequence
---@param options? moonring.CostOfOptions
---@return moonring.Cost?
function Attention:cost(sequence, options) end

function Attention:close() end

--- One micro-batch's plan on this rank, with the lengths of its documents, shared by all layers of
--- a model.
---@class moonring.AttentionPlan
local AttentionPlan = {}

--- out_t = sum_s softmax_s(cap(scale q_t . k_s)) v_s over the tokens s <= t of t's document, s > t
--- - window where there is one, or over those that a mask shows; cap(x) = softcap tanh(x /
--- softcap), or x. Differentiable. Collective over the sp group: every rank makes the same calls in
--- the same order.
---@param q_THD moonring.Tensor [T_local, H, D], rotary embedding applied; fp32, bf16, fp16 or fp64
---@param k_TKD moonring.Tensor [T_local, Hk, D]; Hk divides H
---@param v_TKD moonring.Tensor [T_local, Hk, D]
---@param scale number usually 1 / sqrt(D)
---@param window? integer tokens that a query sees, itself among them; absent: all before it
---@param softcap? number what scores are kept below in size; absent: they are as they are
---@param layer? integer by which a mask is chosen; 0 where absent
---@return moonring.Tensor out_THD [T_local, H, D] in q's dtype
function AttentionPlan:forward(q_THD, k_TKD, v_TKD, scale, window, softcap, layer) end

---@class moonring.DeltaOptions
---@field key_heads integer a divisor of the value heads
---@field key_dim integer of a key head
---@field value_dim integer of a value head
---@field taps? moonring.Tensor [C, W] of a causal depthwise convolution of x, with SiLU after it
---@field scale? number of what comes out; 1 where absent
---@field normalize? boolean whether rows of q and k are brought to length 1 before all else

--- Linear attention by the gated delta rule (mixers/delta_inputs.h), document by document:
--- S = S exp(g_t) (I - beta_t k_t k_t^T) + beta_t v_t k_t^T, out_t = scale S q_t. Differentiable;
--- collective over the sp group as forward is. Spread as `mixing` of attention.create says.
---@param x_TC moonring.Tensor [T_local, C]: channels of q, of k, of v, by heads
---@param g moonring.Tensor the decay's logarithm: [T_local, H] or [T_local, H, key_dim], of fp32
---   or fp64
---@param beta_TH moonring.Tensor [T_local, H] of value heads, of fp32 or fp64
---@param options moonring.DeltaOptions
---@return moonring.Tensor out_THV [T_local, H, value_dim] in x's dtype
function AttentionPlan:delta(x_TC, g, beta_TH, options) end

--- A causal depthwise convolution inside each document: what a token sees of the W - 1 before it.
--- Differentiable; collective over the sp group as forward is.
---@param x_TC moonring.Tensor [T_local, C]
---@param taps_CW moonring.Tensor [C, W], the last one on the token itself
---@param options? { bias: moonring.Tensor?, silu: boolean? } bias [C]; whether SiLU comes after it
---@return moonring.Tensor out_TC [T_local, C] in x's dtype
function AttentionPlan:convolve(x_TC, taps_CW, options) end

function AttentionPlan:close() end

return attention
