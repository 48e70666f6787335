--- Sizes of the attention that one rank computes, for the formulas. The ranks form a grid, contexts
-- x heads; attention_bytes.lua defines the symbols.
local attention = require "moonring.native.attention"

---@class moonring.attention_shape
---@field slices integer the maximum number of slices into which all-gather divides key heads
local attention_shape = {}

attention_shape.slices = 4 -- attention/strategy/context_attention.h

---@class moonring.AttentionShape
---@field rows number tokens of a context, which are processed on one rank of the grid
---@field queries integer query heads that a rank computes
---@field keys integer key heads that a rank computes
---@field shares_keys boolean whether several ranks compute gradients of the same key head
---@field d integer size of a query or key head
---@field v integer size of a value head, and of the output
---@field exchanges boolean whether heads are exchanged
---@field reach number keys before a run of consecutive queries to which the run attends
---@field runs integer runs of consecutive tokens of a document per context

---@class moonring.AttentionFacts
---@field tokens number of the sp group
---@field sp integer
---@field heads integer
---@field kv_heads integer
---@field head_dim integer
---@field value_dim? integer of v and the output; default: head_dim
---@field contexts integer size of the axis along which keys are sent
---@field head_ranks integer size of the axis over which heads are split
---@field keys? "ring" | "windows" | "gather" how keys are sent if there are several contexts
---@field contiguous? boolean whether a context has one run of a document, not two (zigzag)
---@field element_bytes integer of q, k, v
---@field sum_bytes integer bytes per element of sums
---@field device "cpu" | "cuda"
---@field sequences? integer documents that a GPU's kernels process separately; default 1
---@field deterministic? boolean whether a GPU's kernels are deterministic
---@field softcap? number the bound of scores; absent or 0: none
---@field kernels? "none" omits the kernels' workspace

--- Computes the sizes, for the rank with the most heads.
---@param f moonring.AttentionFacts
---@return moonring.AttentionShape
function attention_shape.of(f)
  local split = attention.split_heads { heads = f.heads, kv_heads = f.kv_heads,
    ranks = f.head_ranks }[1]
  return {
    rows = f.tokens / f.contexts,
    queries = split.rank_heads,
    keys = split.rank_kv_heads,
    shares_keys = split.shares_kv_heads,
    d = f.head_dim,
    v = f.value_dim or f.head_dim,
    exchanges = f.head_ranks > 1,
    reach = f.window and f.window - 1 or math.huge,
    runs = f.contiguous and 1 or 2,
  }
end

--- Whether one call of a GPU's 16-bit kernel computes the results of all queries. These are then
--- used in 16 bits, without a cast (attention/kernels/varlen_tile_runner.h).
---@param f moonring.AttentionFacts
---@return boolean
function attention_shape.at_once(f)
  return f.device == "cuda" and f.element_bytes == 2 and (f.softcap or 0) == 0
    and math.max(f.head_dim, f.value_dim or 0) <= 256 and (f.contexts == 1 or f.keys == "gather")
end

--- The number of key rows that a rank has after an all-gather.
---@param f moonring.AttentionFacts
---@param s moonring.AttentionShape
---@return number
function attention_shape.gathered(f, s) return math.min(f.tokens, s.rows + s.runs * s.reach) end

return attention_shape
