---@meta moonring.native.mixing

--- What layers that are not softmax attention cost over the ranks of an sp group, counted from the
--- layout of a micro-batch without running it (mixers/mixing_cost.h). The layers themselves:
--- `AttentionPlan:delta` and `AttentionPlan:convolve`.
---@class moonring.mixing
local mixing = {}

--- How a gated delta rule is spread over ranks. "heads": rows travel, each rank has some heads of
--- all of them; "spans": maps of states travel at once; "relay": states travel from rank to rank;
--- "auto": that of the least estimate. Ranks keep their rows in the latter two.
---@alias moonring.MixingMode "auto" | "heads" | "spans" | "relay"

--- The modes' names, "auto" first.
---@return moonring.MixingMode[]
function mixing.names() end

---@class moonring.MixingCostOptions
---@field layout moonring.Layout
---@field mode? moonring.MixingMode "auto" where absent
---@field key_heads integer
---@field value_heads integer a multiple of key_heads
---@field key_dim integer of a key head
---@field value_dim integer of a value head
---@field taps? integer of the convolution before the rule; 0, or absent: there is none
---@field by_channel? boolean whether decays are [T, H, key_dim], not [T, H]
---@field dtype? "fp32" | "bf16" | "fp16" | "fp64" of what is mixed; "fp32" where absent
---@field device? "cpu" | "cuda" what times are estimated for; "cpu" where absent

---@class moonring.MixingTraffic
---@field steps integer peers of each exchange, summed
---@field bytes integer sent

---@class moonring.RankMixingCost
---@field forward moonring.MixingTraffic
---@field backward moonring.MixingTraffic

---@class moonring.MixingCost
---@field [integer] moonring.RankMixingCost by rank, from 1
---@field mode "heads" | "spans" | "relay" what was asked for, or chosen
---@field seconds number of the slowest rank, forward and backward, by the estimate

--- One layer of the gated delta rule with its convolution. Errors: INVALID_ARGUMENT for a mode that
--- is none, and sizes that do not fit.
---@param options moonring.MixingCostOptions
---@return moonring.MixingCost
function mixing.cost(options) end

---@class moonring.ConvolutionCostOptions
---@field layout moonring.Layout
---@field channels integer
---@field taps integer
---@field dtype? "fp32" | "bf16" | "fp16" | "fp64" of what is mixed; "fp32" where absent

--- One short convolution alone: the rows before a rank's first ones travel, in every mode. By rank,
--- from 1.
---@param options moonring.ConvolutionCostOptions
---@return moonring.RankMixingCost[]
function mixing.convolution_cost(options) end

return mixing
