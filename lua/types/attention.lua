---@meta moonring.native.attention

--- Causal attention inside each document of a packed stream (documents one after another, without
--- padding), computed by the ranks of a sequence-parallel (sp) group together.
---@class moonring.attention
local attention = {}

--- The name of an attention strategy: "zigzag-ring", "ring", "ulysses", "all-gather", "usp", ...
--- (attention/strategy/strategies.cc lists and describes all).
---@alias moonring.Strategy string

--- Parameters of an attention strategy. A degree or window that is 0 or absent is chosen
--- automatically.
---@class moonring.StrategyOptions
---@field strategy? moonring.Strategy default "zigzag-ring"; on one rank all strategies are the same
---@field ulysses_degree? integer for the strategy usp: number of ranks over which heads are split
---@field ring_degree? integer for the strategy usp: number of ranks around which keys and values
---   are passed; ulysses_degree x ring_degree must be the number of ranks
---@field placement? "head_first" | "context_first" for the strategy usp: which ranks have
---   consecutive numbers: those among which heads are split ("head_first"), or those among which
---   tokens are split ("context_first"); default "head_first"
---@field double_ring_window? integer for the strategy double-ring: number of ranks in the inner
---   ring, a divisor of the number of ranks
---@field ranks_per_machine? integer number of ranks on one machine (consecutive rank numbers); 0 or
---   absent: all ranks
---@field heads? integer query heads
---@field kv_heads? integer must divide heads
---@field head_dim? integer
---@field value_dim? integer head dimension of v and of the output; default head_dim
---@field dtype? "fp32" | "bf16" | "fp16" | "fp64" dtype of q, k and v, used to estimate bytes;
---   default "fp32"

---@class moonring.AttentionOptions: moonring.StrategyOptions
---@field mesh moonring.Mesh the strategy runs over its sp axis
---@field device? "cpu" | "cuda" device for which "auto" estimates costs; default "cpu"
---@field kernels? string GPU kernels: "flash", "cudnn", or a choice by document length:
---   "flash<8192<=cudnn" uses cuDNN from 8192 tokens on, "flash<8192<=cudnn, cudnn=4096" also for
---   documents of exactly 4096 tokens; "auto" or absent: chosen by measurement
---@field longest? integer tokens of the longest document; kernels are timed for lengths up to this
---@field layers? integer number of layers that reuse cuDNN's compiled plan for a document length;
---   default 1
---@field mixing? moonring.MixingMode how the work of linear attention layers is divided over the
---   ranks; default "auto"

--- Creates an attention strategy on a mesh. Attention communicates when it runs. Creating it is
--- collective over the mesh only if GPU kernels are timed, and then waits for the GPU. Errors:
--- INVALID_ARGUMENT for an unknown name or mode (the message lists the known ones), for "dense" on
--- several ranks, for degrees or windows that do not divide the number of ranks or heads, and for
--- "auto" without the option `heads`.
---@param options moonring.AttentionOptions
---@return moonring.Attention
function attention.create(options) end

---@class moonring.ResolveOptions: moonring.StrategyOptions
---@field ranks integer
---@field kernels? string as in `create`; only checked for validity

--- A strategy whose degrees are known: the ranks form a grid of context ranks (which divide the
--- tokens) x head ranks (which divide the heads).
---@class moonring.ResolvedStrategy
---@field name string the strategy's name, "dense" on one rank; for "auto" the other fields are nil
---@field words? string a description, such as "usp of 4 contexts x 2 heads, head first"
---@field contexts? integer number of ranks along which keys and values are passed
---@field head_ranks? integer number of ranks over which heads are split
---@field ownership? "contiguous" | "zigzag" how a document is divided over the context ranks
---@field keys? string how keys and values are communicated: passed around ("ring"), or gathered by
---   every rank ("gather")
---@field window? integer number of context ranks in an inner ring; equal to `contexts` if there is
---   a single ring

--- How attention multiplies bf16 matrices on this CPU: "bf16" directly, or "fp32" after converting
--- them to fp32. The latter is used on a CPU without AVX-512 BF16, or if the environment has
--- MOONRING_BF16_TILES=fp32 (so that a run that was started on such a CPU can continue with the
--- same arithmetic).
---@return "bf16" | "fp32"
function attention.bf16_tiles() end

--- The names of all strategies.
---@return moonring.Strategy[]
function attention.names() end

--- Computes the degrees and windows that a strategy would have, without creating it. Errors: as in
--- `create`.
---@param options moonring.ResolveOptions
---@return moonring.ResolvedStrategy
function attention.resolve(options) end

---@class moonring.SplitHeadsOptions
---@field heads integer query heads of a layer
---@field kv_heads integer a divisor of `heads`
---@field ranks? integer ranks over which the heads are split; default 1
---@field shifted? boolean whether attention is shifted (attention/strategy/shifted_attention.h)

--- The heads of one call of attention.
---@class moonring.SplitHeads
---@field heads integer
---@field kv_heads integer
---@field rank_heads integer query heads of the rank that computes the most
---@field rank_kv_heads integer
---@field shares_kv_heads boolean whether several ranks use the same kv head

--- The calls of attention in a layer: one, or one for each half of the heads if attention is
--- shifted. Errors: INVALID_ARGUMENT if `heads` is not a multiple of `kv_heads`.
---@param options moonring.SplitHeadsOptions
---@return moonring.SplitHeads[]
function attention.split_heads(options) end

---@class moonring.LayoutOptions: moonring.StrategyOptions
---@field ranks integer
---@field lengths integer[] number of tokens of each document

--- Computes how a strategy divides documents over ranks for causal attention. Needs no mesh.
--- Errors: as in `create`; also for "auto", which `resolve` must replace by a strategy first.
---@param options moonring.LayoutOptions
---@return moonring.Layout
function attention.layout(options) end

---@class moonring.CostOptions: moonring.StrategyOptions
---@field ranks integer
---@field lengths integer[] number of tokens of each document
---@field window? integer sliding window: number of tokens that a query attends to, including the
---   query's own token; absent: all earlier tokens
---@field shifted? boolean whether to estimate shifted sparse attention
---   (attention/strategy/shifted_attention.h) instead of causal attention; cannot be combined with
---   a window

---@class moonring.Traffic
---@field steps integer for each exchange, the number of peer ranks; the sum over all exchanges
---@field bytes integer bytes sent
---@field far_bytes integer how many of `bytes` go to ranks on other machines

---@class moonring.RankCost
---@field tile_area number number of query-key pairs that the rank computes, times the number of
---   query heads
---@field tokens integer number of tokens that are stored on the rank
---@field peak_bytes integer peak bytes of temporary buffers, not counting inputs, outputs and
---   tensors saved for the backward
---@field forward moonring.Traffic
---@field backward moonring.Traffic

---@class moonring.Cost
---@field [integer] moonring.RankCost by rank, from 1
---@field balance number the largest tile_area of a rank, divided by the mean

--- Estimates what the attention of one layer costs each rank. Nothing is run. Accepts every
--- strategy except "auto".
---@param options moonring.CostOptions
---@return moonring.Cost
function attention.cost(options) end

--- An attention mask, given as lists with one number for each document. Document numbers count from
--- 1. An absent list means that no document has this property.
---@class moonring.MaskOptions
---@field lengths integer[] number of tokens of each document
---@field prefix? integer[] number of first tokens of the document that all of its tokens may attend
---   to
---@field parents? integer[] number of the parent document, whose first tokens are attended to as if
---   they preceded this document's tokens; 0: no parent
---@field parent_tokens? integer[] number of the parent's first tokens that are attended to
---@field window? integer sliding window that replaces the model's; 0: no window

--- Creates a mask: which tokens may attend to which, in addition to the causal rule
--- (attention/kernels/mask.h). `moonring.masks` offers a simpler way to create masks. Errors:
--- INVALID_ARGUMENT, with the document's number counted from 0, for values that do not fit the
--- documents, and if a document is its own ancestor.
---@param options moonring.MaskOptions
---@return moonring.Mask
function attention.mask(options) end

---@class moonring.Mask
local Mask = {}

--- CRC-32 checksum of the mask. Ranks compare it to check that they have the same mask.
---@param before? integer checksum of the preceding masks; if given, the result covers those too
---@return integer
function Mask:checksum(before) end

function Mask:close() end

---@class moonring.Attention
local Attention = {}

--- The name of the strategy ("dense" on one rank, whatever was requested).
---@return string
function Attention:name() end

--- The GPU kernels that compute each length of document, in the format of the key attention_kernels
--- ("flash<8192<=cudnn"); nil if there is no choice.
---@return string?
function Attention:kernels() end

--- Returns how the documents of a micro-batch are divided over the ranks of the sp group.
---@param sequence moonring.Sequence
---@param masks? moonring.Mask[] as in Attention:cut
---@param shifted? boolean as in Attention:cut
---@return moonring.Layout
function Attention:layout(sequence, masks, shifted) end

--- Returns the tokens of a micro-batch that this rank processes, and the plan that computes their
--- attention. A rank may get no tokens; it must make the same calls as the others all the same.
--- Every strategy supports every mask. Errors: INVALID_ARGUMENT if masks were made for other
--- documents, and for masks together with shifted attention.
---@param sequence moonring.Sequence
---@param masks? moonring.Mask[] n masks; layer l, counted from 0, uses the list's mask l % n + 1;
---   absent: causal attention. Must be the same on all ranks of the sp group
---@param shifted? boolean whether every layer uses shifted sparse attention
---   (attention/strategy/shifted_attention.h): groups of a quarter of each document, shifted by
---   half a group for half of the heads; default false
---@return moonring.Tensor ids int64 [T_local]
---@return moonring.Tensor positions int64 [T_local]
---@return moonring.Tensor targets int64 [T_local]
---@return moonring.AttentionPlan plan
---@return moonring.Layout layout
function Attention:cut(sequence, masks, shifted) end

--- Describes in words the strategy that runs for a micro-batch. If the strategy is "auto", also
--- says which strategy was chosen, and lists the estimated costs of the others.
---@param sequence moonring.Sequence
---@return string words
---@return string? chosen the strategy that "auto" chose; nil for a fixed strategy
function Attention:describe(sequence) end

--- Sizes of a layer's attention. heads, kv_heads and head_dim are required.
---@class moonring.CostOfOptions
---@field heads? integer query heads
---@field kv_heads? integer must divide heads
---@field head_dim? integer
---@field value_dim? integer default head_dim
---@field dtype? "fp32" | "bf16" | "fp16" | "fp64" dtype of q, k and v; default "fp32"
---@field ranks_per_machine? integer number of ranks on one machine (consecutive rank numbers); 0 or
---   absent: all ranks
---@field shifted? boolean as in Attention:cut

--- Estimates what the causal attention of one layer costs each rank for a micro-batch, as
--- `moonring.attention.cost` does; nil if documents share prefixes.
---@param sequence moonring.Sequence
---@param options? moonring.CostOfOptions
---@return moonring.Cost?
function Attention:cost(sequence, options) end

function Attention:close() end

--- The plan that computes attention for one micro-batch on this rank. It also has the documents'
--- lengths. All layers of a model use the same plan.
---@class moonring.AttentionPlan
local AttentionPlan = {}

--- Computes attention: out_t = sum_s softmax_s(cap(scale q_t . k_s)) v_s, where cap(x) = softcap
--- tanh(x / softcap), or x without softcap. The sum is over the tokens s <= t of t's document (with
--- a window, only s > t - window), or over the tokens that a mask allows. Differentiable.
--- Collective over the sp group: every rank makes the same calls in the same order.
---@param q_THD moonring.Tensor [T_local, H, D], rotary embedding applied; fp32, bf16, fp16 or fp64
---@param k_TKD moonring.Tensor [T_local, Hk, D]; Hk divides H
---@param v_TKD moonring.Tensor [T_local, Hk, D]
---@param scale number usually 1 / sqrt(D)
---@param window? integer sliding window: number of tokens that a query attends to, including the
---   query's own token; absent: all earlier tokens
---@param softcap? number bound of the attention scores, see the equation; absent: none
---@param layer? integer layer index, which selects the layer's mask; default 0
---@return moonring.Tensor out_THD [T_local, H, D] in q's dtype
function AttentionPlan:forward(q_THD, k_TKD, v_TKD, scale, window, softcap, layer) end

---@class moonring.DeltaOptions
---@field key_heads integer must divide the number of value heads
---@field key_dim integer features of a key head
---@field value_dim integer features of a value head
---@field taps? moonring.Tensor [C, W] weights of a causal depthwise convolution that is applied to
---   x before the rule, followed by SiLU
---@field scale? number factor of the output, as in the equation of `delta`; default 1
---@field normalize? boolean whether rows of q and k are first normalized to length 1

--- Computes linear attention by the gated delta rule (mixers/rule/delta_inputs.h). For each
--- document separately, with the state S starting at 0: S = S exp(g_t) (I - beta_t k_t k_t^T) +
--- beta_t v_t k_t^T, out_t = scale S q_t. Differentiable; collective over the sp group, as
--- AttentionPlan:forward. The option `mixing` of attention.create selects how the work is divided
--- over the ranks.
---@param x_TC moonring.Tensor [T_local, C]: channels of q, then k, then v, each ordered by heads
---@param g moonring.Tensor logarithm of the decay: [T_local, H] or [T_local, H, key_dim], fp32 or
---   fp64
---@param beta_TH moonring.Tensor [T_local, H], one for each value head, fp32 or fp64
---@param options moonring.DeltaOptions
---@return moonring.Tensor out_THV [T_local, H, value_dim] in x's dtype
function AttentionPlan:delta(x_TC, g, beta_TH, options) end

--- Computes a causal depthwise convolution within each document: out_t depends on token t and the W
--- - 1 tokens before it. Differentiable; collective over the sp group, as AttentionPlan:forward.
---@param x_TC moonring.Tensor [T_local, C]
---@param taps_CW moonring.Tensor [C, W], the last weight applies to the token itself
---@param options? { bias: moonring.Tensor?, silu: boolean? } bias: shape [C]; silu: whether SiLU is
---   applied to the result
---@return moonring.Tensor out_TC [T_local, C] in x's dtype
function AttentionPlan:convolve(x_TC, taps_CW, options) end

function AttentionPlan:close() end

return attention
