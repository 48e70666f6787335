--- The sizes of attention on one place of the grid of ranks, contexts x heads, that its formulas
-- start from. Letters as in attention_bytes.lua.

---@class moonring.attention_shape
---@field slices integer in which all-gather takes a place's key heads, at most
local attention_shape = {}

attention_shape.slices = 4 -- attention/context_attention.h

---@class moonring.AttentionShape
---@field rows number tokens of a context place
---@field queries integer heads at hand
---@field keys integer heads at hand
---@field d integer of a query and a key of a head
---@field v integer of a value, and of what comes out
---@field exchanges boolean whether heads are exchanged
---@field reach number keys before a run of queries that it sees
---@field runs integer of tokens, that a place owns of a document

---@class moonring.AttentionFacts
---@field tokens number of the sp group
---@field sp integer
---@field heads integer
---@field kv_heads integer
---@field head_dim integer
---@field value_dim? integer of v and what comes out; head_dim where absent
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

--- The sizes. Heads that do not divide: the fullest rank's.
---@param f moonring.AttentionFacts
---@return moonring.AttentionShape
function attention_shape.of(f)
  local places, heads = f.contexts, f.head_ranks
  return {
    rows = f.tokens / places,
    queries = math.ceil(f.heads / heads),
    keys = math.max(1, math.ceil(f.kv_heads / heads)),
    d = f.head_dim,
    v = f.value_dim or f.head_dim,
    exchanges = heads > 1,
    reach = f.window and f.window - 1 or math.huge,
    runs = f.contiguous and 1 or 2,
  }
end

--- Whether a 16-bit kernel of a GPU gives the results of all queries in one call, in 16 bit, which
--- then are handed on as they are (attention/varlen_tile_runner.h).
---@param f moonring.AttentionFacts
---@return boolean
function attention_shape.at_once(f)
  return f.device == "cuda" and f.element_bytes == 2 and (f.softcap or 0) == 0
    and math.max(f.head_dim, f.value_dim or 0) <= 256 and (f.contexts == 1 or f.keys == "gather")
end

--- Rows of keys that all-gather holds.
---@param f moonring.AttentionFacts
---@param s moonring.AttentionShape
---@return number
function attention_shape.gathered(f, s) return math.min(f.tokens, s.rows + s.runs * s.reach) end

return attention_shape
