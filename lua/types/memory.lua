---@meta moonring.memory

--- How many bytes training takes, from facts alone: the one place with the formulas.
---@class moonring.memory
---@field coefficients table<string, any> what measurements may correct: numbers of full-length tensors, and budgets in bytes
---@field error number the relative error that a prediction is held to
---@field parts string[] the parts' names, in the order in which they are told
local memory = {}

---@class moonring.ModelShape
---@field layers integer
---@field hidden integer
---@field width integer features of the MLP that a token meets
---@field heads integer
---@field kv_heads integer
---@field head_dim integer
---@field vocab integer
---@field tile_factor? integer how many times more rows a tile has than of a dense MLP; 1 where absent
---@field softcap? number the bound that attention's scores approach; absent or 0: they have none
---@field tied? boolean whether the head is the embedding
---@field bias? boolean whether q, k and v have one
---@field embedding? integer parameters of it, as of the next two
---@field head? integer 0 where it is tied
---@field blocks? integer and the final norm

---@class moonring.MemoryFacts
---@field model moonring.ModelShape
---@field learns { embedding: number, head: number, blocks: number } parameters of each that learn
---@field adapter number parameters of an adapter beside them
---@field depth integer layers that a backward goes down
---@field tokens number of a micro-batch, over the sp group
---@field alone number of an example, over the sp group
---@field step number of a step, on one sp group
---@field documents integer of an example
---@field micro_batches integer in a step
---@field sp integer
---@field ranks integer
---@field machine integer ranks that share one
---@field strategy string
---@field contexts integer
---@field head_ranks integer
---@field keys "ring" | "windows" | "gather"
---@field contiguous boolean
---@field zero_stage integer
---@field zero_ranks number over which states are sharded
---@field precision "fp32" | "bf16" | "pure_bf16" | "fp64"
---@field recompute "block" | "selective" | "none"
---@field whole_layers? integer the first layers, that keep everything whatever `recompute` says
---@field selective_layers? integer the layers after them, that keep attention's result
---@field optimizer "adamw" | "sgd"
---@field activation_offload? "cpu" | "disk" where it moves anything
---@field idle_offload? string a line that says so where it is asked for and does not
---@field offload_optimizer? "cpu" | "disk"
---@field device "cpu" | "cuda"
---@field reference boolean whether a second model is held
---@field logits "chunked" | "none" | "whole"
---@field mapped? number bytes of files whose pages stay resident while nobody wants the room, counted nowhere; 0: on a CPU weights that nobody changes are their file's pages
---@field sequences? integer documents of a micro-batch, which a GPU's kernels take apart; 1 where absent
---@field deterministic? boolean whether a GPU's kernels give the same bits each time
---@field context_is_there? boolean whether CUDA's context is taken from the memory there is already
---@field learning_layers? integer of which `learns.blocks` are parameters; all where absent
---@field dora? number elements of the largest map that DoRA is put on
---@field tile_bytes? number of a tile of rows in work; 0: no tiles

---@class moonring.MemoryMoment
---@field name "logits" | "top block" | "first block" | "step"
---@field total number bytes
---@field parts table<string, number> bytes by part

---@class moonring.MemoryPrediction
---@field total number bytes of a rank at the greatest moment
---@field parts table<string, number> of these by part
---@field moment "logits" | "top block" | "first block" | "step" which one it is
---@field moments moonring.MemoryMoment[]
---@field mapped number of them those of weights that are pages of a file and not anonymous
---@field host number bytes a rank that lie in the host's memory instead
---@field disk number bytes a rank that lie on disk instead
---@field fixed { bytes: number, words: string }[] of the part `other`, what a GPU takes for itself

--- What a GPU takes for itself: CUDA's context, workspaces and buffers of its libraries; nothing on a CPU.
---@param f moonring.MemoryFacts
---@return { bytes: number, words: string }[]
function memory.fixed(f) end

--- Fills in the parameters of a model of Llama's shape, by part, and returns it.
---@param m moonring.ModelShape
---@return moonring.ModelShape
function memory.shape(m) end

--- Bytes of a rank.
---@param f moonring.MemoryFacts
---@return moonring.MemoryPrediction
function memory.predict(f) end

--- The most tokens of a micro-batch that fit, in steps; 0 where not even one does.
---@param f moonring.MemoryFacts
---@param bytes number
---@param step integer
---@return number
function memory.longest(f, bytes, step) end

return memory
