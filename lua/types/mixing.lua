---@meta moonring.native.mixing

--- Costs of layers other than softmax attention over the ranks of an sp group, computed from a
--- micro-batch's layout without running them (mixers/over_ranks/mixing_cost.h). The layers
--- themselves: `AttentionPlan:delta` and `AttentionPlan:convolve`.
---@class moonring.mixing
local mixing = {}

--- How a gated delta rule is spread over ranks. "heads": rows are exchanged so that each rank
--- computes some heads of the whole sequence. "spans": ranks keep their rows and exchange the state
--- maps of all their spans at once. "relay": ranks keep their rows and pass states from rank to
--- rank. "auto": the mode with the smallest estimated time.
---@alias moonring.MixingMode "auto" | "heads" | "spans" | "relay"

--- The names of the modes, "auto" first.
---@return moonring.MixingMode[]
function mixing.names() end

---@class moonring.MixingCostOptions
---@field layout moonring.Layout
---@field mode? moonring.MixingMode default "auto"
---@field key_heads integer
---@field value_heads integer a multiple of key_heads
---@field key_dim integer features of a key head
---@field value_dim integer features of a value head
---@field taps? integer width of the convolution before the rule; 0 or absent: none
---@field by_channel? boolean whether decays are [T, H, key_dim] instead of [T, H]
---@field dtype? "fp32" | "bf16" | "fp16" | "fp64" dtype of the layer's inputs; default "fp32"
---@field device? "cpu" | "cuda" device for which times are estimated; default "cpu"

---@class moonring.MixingTraffic
---@field steps integer number of peers, summed over all exchanges
---@field bytes integer bytes sent

---@class moonring.RankMixingCost
---@field forward moonring.MixingTraffic
---@field backward moonring.MixingTraffic

---@class moonring.MixingCost
---@field [integer] moonring.RankMixingCost by rank, from 1
---@field mode "heads" | "spans" | "relay" the requested mode, or the one that "auto" chose
---@field seconds number estimated time of the slowest rank, forward and backward

--- Computes the cost of one layer with the gated delta rule and its convolution. Errors:
--- INVALID_ARGUMENT for an unknown mode and for sizes that do not fit.
---@param options moonring.MixingCostOptions
---@return moonring.MixingCost
function mixing.cost(options) end

---@class moonring.ConvolutionCostOptions
---@field layout moonring.Layout
---@field channels integer
---@field taps integer
---@field dtype? "fp32" | "bf16" | "fp16" | "fp64" dtype of the layer's inputs; default "fp32"

--- Computes the cost of one short convolution. In every mode a rank receives the rows just before
--- its own. Returned by rank, from 1.
---@param options moonring.ConvolutionCostOptions
---@return moonring.RankMixingCost[]
function mixing.convolution_cost(options) end

return mixing
