---@meta moonring.memory_check

--- Before a run: whether it is foretold to fit, and what to change where not.
---@class moonring.memory_check
local check = {}

--- What would fit: keys to write, the mildest first.
---@param f moonring.MemoryFacts
---@param bytes number that a rank may take
---@param facts_with fun(changes: table): moonring.MemoryFacts the facts of the configuration with other keys
---@return string[]
function check.proposals(f, bytes, facts_with) end

--- The judgement of a prediction; nothing where it fits.
---@param f moonring.MemoryFacts
---@param bytes number that a rank may take
---@param facts_with fun(changes: table): moonring.MemoryFacts
---@return ("warn" | "refuse")? verdict
---@return string? words
function check.judge(f, bytes, facts_with) end

--- The words for what a GPU's offload would take of its host, where that is too little.
---@param f moonring.MemoryFacts
---@param ranks integer that share the host
---@param bytes number of its memory
---@return string?
function check.judge_host(f, ranks, bytes) end

---@class moonring.CheckedRun
---@field mesh moonring.Mesh
---@field device "cpu" | "cuda"
---@field checkpoint moonring.Checkpoint
---@field dataset moonring.Dataset | moonring.Stream
---@field report? moonring.MemoryReport is told what is foretold

--- By memory_check and memory_limit: ends a run that would not fit; settles recompute: auto; gives lines for the log. Collective over all ranks.
--- Errors: INVALID_ARGUMENT with what is foretold by part, what there is and what to change.
---@param c moonring.Configuration
---@param parts moonring.CheckedRun
---@return string[]
function check.run(c, parts) end

return check
