---@meta moonring.memory_facts

--- The facts that moonring.memory foretells from, out of a configuration and a checkpoint.
---@class moonring.memory_facts
local facts = {}

--- A model's sizes, and its parameters by part. The config alone will do.
---@param checkpoint moonring.Checkpoint
---@return moonring.ModelShape
function facts.model(checkpoint) end

--- What a strategy makes of its ranks. Errors: as attention.resolve.
---@param options moonring.ResolveOptions
---@return { contexts: integer, head_ranks: integer, keys: string, contiguous: boolean }
function facts.division(options) end

--- Documents of an example, which go through one forward together: 2 in stages dpo, rm and kto.
---@param c moonring.Configuration
---@return integer
function facts.documents(c) end

---@class moonring.RunOn
---@field ranks integer
---@field device "cpu" | "cuda"
---@field machine? integer ranks that share one; all where absent
---@field longest? integer tokens of the longest document; cutoff_len where absent
---@field context_is_there? boolean whether free memory was read with CUDA's context in it

--- The facts of a run.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param given moonring.RunOn
---@return moonring.MemoryFacts
function facts.run(c, checkpoint, given) end

--- The same facts over `sp` ranks by `strategy`. Errors: INVALID_ARGUMENT where it cannot be.
---@param f moonring.MemoryFacts
---@param sp integer
---@param strategy string
---@param options? table degrees and windows, by the names of attention.resolve's options; chosen where absent
---@return moonring.MemoryFacts
function facts.spread(f, sp, strategy, options) end

return facts
