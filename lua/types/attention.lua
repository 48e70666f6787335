---@meta moonring.native.attention

--- Causal attention inside each document of a packed stream, spread over the ranks of an sp group.
---@class moonring.attention
local attention = {}

--- An attention strategy by its name in attention/strategy/strategies.cc: "zigzag-ring", "ring",
--- "ulysses", "all-gather", "usp", ...; described in attention/strategy/strategies.h.
---@alias moonring.Strategy string

--- Parameters of a strategy. Degrees and windows that are 0 or absent are chosen automatically.
---@class moonring.StrategyOptions
---@field strategy? moonring.Strategy default "zigzag-ring"; on one rank all strategies are the same
---@field ulysses_degree? integer usp: number of ranks over which heads are split
--- usp: number of ranks around which keys and values are passed; the product of both degrees is the
--- number of ranks
---@field ring_degree? integer
--- usp: the axis whose ranks are neighbours; default "head_first"
---@field placement? "head_first" | "context_first"
---@field double_ring_window? integer double-ring: number of ranks in the inner ring, a divisor of
---   the number of ranks
---@field ranks_per_machine? integer neighbouring ranks on one machine; 0 or absent: all
---@field heads? integer query heads
---@field kv_heads? integer must divide heads
---@field head_dim? integer
---@field value_dim? integer head dimension of v and of the output; default head_dim
--- dtype of q, k and v, for counting bytes; default "fp32"
---@field dtype? "fp32" | "bf16" | "fp16" | "fp64"

---@class moonring.AttentionOptions: moonring.StrategyOptions
---@field mesh moonring.Mesh the strategy runs over its sp axis
---@field device? "cpu" | "cuda" device for which "auto" estimates costs; default "cpu"
--- GPU kernels: "flash", "cudnn" or a choice by document length, as "flash<8192<=cudnn"; ",
--- cudnn=4096" may follow; "auto" or absent: chosen by measurement
---@field kernels? string
---@field longest? integer tokens of the longest document; kernels are measured up to this length
---@field layers? integer number of layers that share cuDNN's compiled plans for a length; default 1
--- how layers with linear attention are spread over the ranks; default "auto"
---@field mixing? moonring.MixingMode

--- Creates an attention strategy on a mesh. Its plans communicate; creating it is collective over
--- the mesh only if kernels are measured, and then waits for the GPU. Errors: INVALID_ARGUMENT for
--- an unknown name or mode (with the known ones), for "dense" on several ranks, for degrees or
--- windows that do not divide, and for "auto" without heads.
---@param options moonring.AttentionOptions
---@return moonring.Attention
function attention.create(options) end

---@class moonring.ResolveOptions: moonring.StrategyOptions
---@field ranks integer
---@field kernels? string as in `create`; only checked

--- A strategy with its degrees, as a grid of context ranks x head ranks.
---@class moonring.ResolvedStrategy
---@field name string the strategy's name, "dense" on one rank; for "auto" the other fields are nil
---@field words? string such as "usp of 4 contexts x 2 heads, head first"
---@field contexts? integer number of ranks along which keys and values are passed
---@field head_ranks? integer number of ranks over which heads are split
---@field ownership? "contiguous" | "zigzag" how a document is divided over the context ranks
---@field keys? "ring" | "gather" how keys and values are communicated
---@field window? integer context ranks in an inner ring; all of them: a single ring

--- How attention multiplies bf16 matrices on this CPU: "bf16" directly, or "fp32" after an upcast,
--- on a CPU without AVX-512 BF16 or with MOONRING_BF16_TILES=fp32 in the environment (for a run
--- that was started on such a CPU).
---@return "bf16" | "fp32"
function attention.bf16_tiles() end

--- The names of all strategies.
---@return moonring.Strategy[]
function attention.names() end

--- Resolves a strategy's degrees and windows without creating it. Errors: as in `create`.
---@param options moonring.ResolveOptions
---@return moonring.ResolvedStrategy
function attention.resolve(options) end

---@class moonring.LayoutOptions: moonring.StrategyOptions
---@field ranks integer
---@field lengths integer[] number of tokens of each document

--- Computes how a strategy spreads documents over ranks for causal attention, without a mesh.
--- Errors: as in `create`; also for "auto", which must be resolved to a strategy first.
---@param options moonring.LayoutOptions
---@return moonring.Layout
function attention.layout(options) end

---@class moonring.CostOptions: moonring.StrategyOptions
---@field ranks integer
---@field lengths integer[] number of tokens of each document
---@field window? integer sliding window: tokens that a query may attend to, including its own;
---   absent: all before it
--- whether to count shifted sparse attention (attention/strategy/shifted_attention.h) instead of
--- causal attention; not with a window
---@field shifted? boolean

---@class moonring.Traffic
---@field steps integer number of peers, summed over all exchanges
---@field bytes integer bytes sent
---@field far_bytes integer bytes among them that go to ranks on other machines

---@class moonring.RankCost
---@field tile_area number number of query-key pairs, times the query heads that the rank computes
---@field tokens integer tokens that the rank owns
---@field peak_bytes integer peak bytes of buffers, in addition to inputs, outputs and what is saved
---   for the backward
---@field forward moonring.Traffic
---@field backward moonring.Traffic

---@class moonring.Cost
---@field [integer] moonring.RankCost by rank, from 1
---@field balance number largest tile area divided by the mean

--- Computes what one layer's attention costs each rank, from its plan, without running it. Accepts
--- every strategy except "auto".
---@param options moonring.CostOptions
---@return moonring.Cost
function attention.cost(options) end

--- A mask as lists with one number for each document. Lists and document numbers count from 1. An
--- absent list means that no document has this property.
---@class moonring.MaskOptions
---@field lengths integer[] number of tokens of each document
---@field prefix? integer[] length of the prefix: these first tokens are visible to all of the
---   document's tokens
---@field parents? integer[] parent document, whose first tokens precede this document's own; 0:
---   none
---@field parent_tokens? integer[] how many of the parent's first tokens precede it
---@field window? integer sliding window instead of the model's; 0: none

--- Creates a mask: which tokens may attend to which, in addition to the causal rule
--- (attention/kernels/mask.h). `moonring.masks` creates masks from a simpler table. Errors:
--- INVALID_ARGUMENT, with the document's number from 0, for values that do not fit the documents
--- and for cyclic parents.
---@param options moonring.MaskOptions
---@return moonring.Mask
function attention.mask(options) end

---@class moonring.Mask
local Mask = {}

--- CRC-32 of the mask's contents, to check that all ranks have the same mask.
---@param before? integer checksum of the preceding masks, which is continued
---@return integer
function Mask:checksum(before) end

function Mask:close() end

---@class moonring.Attention
local Attention = {}

--- The name of the strategy ("dense" on one rank, whatever was requested).
---@return string
function Attention:name() end

--- Which GPU kernels process which documents, in the format of the key attention_kernels; nil if
--- there is no choice.
---@return string?
function Attention:kernels() end

--- Returns how documents are spread over the sp group.
---@param sequence moonring.Sequence
---@param masks? moonring.Mask[] as in `cut`
---@param shifted? boolean as in `cut`
---@return moonring.Layout
function Attention:layout(sequence, masks, shifted) end

--- Returns this rank's share of a micro-batch, and the plan that runs its attention. A share may be
--- empty; a rank without tokens makes the same calls as the others. Every strategy supports every
--- mask. Errors: INVALID_ARGUMENT if masks belong to other documents, and for masks together with
--- shifted attention.
---@param sequence moonring.Sequence
---@param masks? moonring.Mask[] layer l, from 0, uses mask number l % n + 1 of n; absent: causal
---   attention; the same on all ranks of the sp group
---@param shifted? boolean whether every layer uses shifted sparse attention
---   (attention/strategy/shifted_attention.h): groups of a quarter of each document, shifted by
---   half a group for half of the heads; default false
---@return moonring.Tensor ids int64 [T_local]
---@return moonring.Tensor positions int64 [T_local]
---@return moonring.Tensor targets int64 [T_local]
---@return moonring.AttentionPlan plan
---@return moonring.Layout layout
function Attention:cut(sequence, masks, shifted) end

--- Describes the strategy that runs for a micro-batch in words. For "auto", also which strategy it
--- chose, and the estimated costs of the others.
---@param sequence moonring.Sequence
---@return string words
---@return string? chosen the strategy that "auto" chose; nil for a fixed strategy
function Attention:describe(sequence) end

--- Shape of a layer's attention. heads, kv_heads and head_dim are required.
---@class moonring.CostOfOptions
---@field heads? integer query heads
---@field kv_heads? integer must divide heads
---@field head_dim? integer
---@field value_dim? integer default head_dim
---@field dtype? "fp32" | "bf16" | "fp16" | "fp64" dtype of q, k and v; default "fp32"
---@field ranks_per_machine? integer neighbouring ranks on one machine; 0 or absent: all
---@field shifted? boolean as in `cut`

--- Computes what a layer's causal attention over a micro-batch costs each rank, from its plan, as
--- `moonring.attention.cost` does; nil if documents share prefixes.
---@param sequence moonring.Sequence
---@param options? moonring.CostOfOptions
---@return moonring.Cost?
function Attention:cost(sequence, options) end

function Attention:close() end

--- The attention plan of one micro-batch on this rank, including the documents' lengths. All layers
--- of a model share it.
---@class moonring.AttentionPlan
local AttentionPlan = {}

--- Computes attention: out_t = sum_s softmax_s(cap(scale q_t . k_s)) v_s, cap(x) = softcap tanh(x /
--- softcap), or x without softcap. The sum is over tokens s <= t of t's document, with s > t -
--- window if there is a window, or over the tokens that a mask allows. Differentiable. Collective
--- over the sp group: every rank makes the same calls in the same order.
---@param q_THD moonring.Tensor [T_local, H, D], rotary embedding applied; fp32, bf16, fp16 or fp64
---@param k_TKD moonring.Tensor [T_local, Hk, D]; Hk divides H
---@param v_TKD moonring.Tensor [T_local, Hk, D]
---@param scale number usually 1 / sqrt(D)
---@param window? integer sliding window: tokens that a query may attend to, including its own;
---   absent: all before it
---@param softcap? number soft bound of the scores; absent: none
---@param layer? integer layer index, by which a mask is chosen; default 0
---@return moonring.Tensor out_THD [T_local, H, D] in q's dtype
function AttentionPlan:forward(q_THD, k_TKD, v_TKD, scale, window, softcap, layer) end

---@class moonring.DeltaOptions
---@field key_heads integer must divide the number of value heads
---@field key_dim integer features of a key head
---@field value_dim integer features of a value head
---@field taps? moonring.Tensor [C, W] weights of a causal depthwise convolution that is applied to
---   x before the rule, followed by SiLU
---@field scale? number factor of the output; default 1
---@field normalize? boolean whether rows of q and k are first normalized to length 1

--- Computes linear attention by the gated delta rule (mixers/rule/delta_inputs.h), for each
--- document separately: S = S exp(g_t) (I - beta_t k_t k_t^T) + beta_t v_t k_t^T, out_t = scale S
--- q_t. Differentiable; collective over the sp group as `forward`. Spread over ranks by the option
--- `mixing` of attention.create.
---@param x_TC moonring.Tensor [T_local, C]: channels of q, then k, then v, each ordered by heads
---@param g moonring.Tensor logarithm of the decay: [T_local, H] or [T_local, H, key_dim], fp32 or
---   fp64
---@param beta_TH moonring.Tensor [T_local, H], one for each value head, fp32 or fp64
---@param options moonring.DeltaOptions
---@return moonring.Tensor out_THV [T_local, H, value_dim] in x's dtype
function AttentionPlan:delta(x_TC, g, beta_TH, options) end

--- Computes a causal depthwise convolution within each document: out_t depends on t and the W - 1
--- tokens before it. Differentiable; collective over the sp group as `forward`.
---@param x_TC moonring.Tensor [T_local, C]
---@param taps_CW moonring.Tensor [C, W], the last weight applies to the token itself
---@param options? { bias: moonring.Tensor?, silu: boolean? } bias [C]; whether SiLU follows
---@return moonring.Tensor out_TC [T_local, C] in x's dtype
function AttentionPlan:convolve(x_TC, taps_CW, options) end

function AttentionPlan:close() end

return attention
