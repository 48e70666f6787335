---@meta moonring.native.mixing

--- Costs of layers other than softmax attention, estimated for the ranks of an sp group from the
--- layout of a micro-batch. No layer is run (mixers/over_ranks/mixing_cost.h). The layers
--- themselves: `AttentionPlan:delta` and `AttentionPlan:convolve`.
---@class moonring.mixing
local mixing = {}

--- How the work of a linear attention layer (gated delta rule) is divided over ranks. "heads": rows
--- are exchanged so that each rank computes some heads of the whole sequence. "spans": ranks keep
--- their rows; each computes how its rows transform the recurrent state, and all ranks exchange
--- these transformations at once. "relay": ranks keep their rows, and each passes its final state
--- to the next rank. "auto": the mode with the smallest estimated time.
---@alias moonring.MixingMode "auto" | "heads" | "spans" | "relay"

--- The names of the modes, "auto" first.
---@return moonring.MixingMode[]
function mixing.names() end

---@class moonring.MixingCostOptions
---@field layout moonring.Layout
---@field mode? moonring.MixingMode default "auto"
---@field key_heads integer number of key heads
---@field value_heads integer number of value heads, a multiple of key_heads
---@field key_dim integer features of a key head
---@field value_dim integer features of a value head
---@field taps? integer width of the convolution before the rule; 0 or absent: none
---@field by_channel? boolean whether there is a decay for each key channel ([T, H, key_dim])
---   instead of one for each head ([T, H])
---@field dtype? "fp32" | "bf16" | "fp16" | "fp64" dtype of the layer's inputs; default "fp32"
---@field device? "cpu" | "cuda" device for which times are estimated; default "cpu"

---@class moonring.MixingTraffic
---@field steps integer for each exchange, the number of peer ranks; the sum over all exchanges
---@field bytes integer bytes sent

---@class moonring.RankMixingCost
---@field forward moonring.MixingTraffic
---@field backward moonring.MixingTraffic

---@class moonring.MixingCost
---@field [integer] moonring.RankMixingCost by rank, from 1
---@field mode "heads" | "spans" | "relay" the requested mode, or the one that "auto" chose
---@field seconds number estimated time of forward and backward on the slowest rank

--- Estimates the cost of one layer with the gated delta rule and the convolution before it. Errors:
--- INVALID_ARGUMENT for an unknown mode and for sizes that do not fit.
---@param options moonring.MixingCostOptions
---@return moonring.MixingCost
function mixing.cost(options) end

---@class moonring.ConvolutionCostOptions
---@field layout moonring.Layout
---@field channels integer
---@field taps integer width of the convolution
---@field dtype? "fp32" | "bf16" | "fp16" | "fp64" dtype of the layer's inputs; default "fp32"

--- Estimates the cost of one short convolution, as a list by rank, from 1. In every mode a rank
--- receives the few rows that precede its own rows.
---@param options moonring.ConvolutionCostOptions
---@return moonring.RankMixingCost[]
function mixing.convolution_cost(options) end

return mixing
