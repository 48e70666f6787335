---@meta moonring.attention_bytes

--- What one layer's attention holds and sends, in closed form.
---@class moonring.attention_bytes
local bytes = {}

---@class moonring.AttentionFacts
---@field tokens number of the sp group
---@field sp integer
---@field heads integer
---@field kv_heads integer
---@field head_dim integer
---@field contexts integer places of the axis along which keys travel
---@field head_ranks integer places of the axis over which heads are split
---@field keys? "ring" | "windows" | "gather" how keys travel where there are several contexts
---@field contiguous? boolean whether a place owns one piece of a document, not two
---@field element_bytes integer of q, k, v
---@field sum_bytes integer of sums
---@field device "cpu" | "cuda"
---@field sequences? integer documents that a GPU's kernels take apart; 1 where absent
---@field deterministic? boolean whether a GPU's kernels give the same bits each time
---@field softcap? number the bound that scores approach; absent or 0: they have none
---@field kernels? "none" what they take is left out

---@class moonring.AttentionBytes
---@field attention number of this rank's own tokens and of the heads at hand
---@field communication number exchanged heads; keys of others and their gradients
---@field kernel number what a GPU's kernel takes besides; 0 on a CPU
---@field kept number of attention: what recompute: selective keeps of every layer
---@field waiting number of attention: what waits from the forward while what follows attention runs backward
---@field exchanged number of communication: the same

--- Bytes that a rank holds at most while one layer runs backward.
---@param f moonring.AttentionFacts
---@return moonring.AttentionBytes
function bytes.memory(f) end

--- Bytes that a rank sends in one layer, on average over the ranks.
---@param f moonring.AttentionFacts
---@return { forward: number, backward: number }
function bytes.traffic(f) end

return bytes
