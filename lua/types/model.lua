---@meta moonring.native.model

--- Checkpoints, models and decoding.
---@class moonring.model
local model = {}

--- Opens a checkpoint: a Hugging Face folder, a .gguf file or a folder with one, or builtin:NAME. Reads headers alone and checks that
--- every weight is there with its shape.
--- Errors: NOT_FOUND, INVALID_ARGUMENT (a damaged file, a wrong shape), UNIMPLEMENTED (a kind of model that is not supported yet).
---@param path string
---@return moonring.Checkpoint
function model.open(path) end

---@class moonring.LoadOptions
---@field precision? "fp32" | "bf16" | "pure_bf16" | "fp64" bf16: fp32 weights, bf16 matmuls; pure_bf16: both bf16; "fp32" where absent
---@field recompute? "block" | "selective" | "none" what backward makes again: each block from its input, all of a block but its attention, or nothing; "block" where absent
---@field frozen? boolean no weight learns; matrices are held in the matmul dtype; false where absent
---@field device? "cpu" | "cuda" where the weights lie: the GPU that `model.device` chose; "cpu" where absent

--- Reads every weight.
---@param checkpoint moonring.Checkpoint
---@param options? moonring.LoadOptions
---@return moonring.Model
function model.load(checkpoint, options) end

--- "cpu" or "cuda" for what was asked: "auto" takes a GPU where this build and this machine have one. Of several GPUs a rank has
--- the one of its LOCAL_RANK, from when its mesh is made.
--- Errors: FAILED_PRECONDITION for "cuda" where there is none.
---@param asked "auto" | "cpu" | "cuda"
---@return "cpu" | "cuda"
function model.device(asked) end

--- How many GPUs this build can use on this machine.
---@return integer
function model.gpus() end

--- A model as it lies on disk.
---@class moonring.Checkpoint
local Checkpoint = {}

--- Where it was opened.
---@return string
function Checkpoint:path() end

--- The text of a file that belongs to the model ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja",
--- ...), or nil. For a GGUF they are made from its metadata.
---@param name string
---@return string?
function Checkpoint:companion(name) end

--- The ids that end an answer, by config.json: none, one or several.
---@return integer[]
function Checkpoint:eos_token_ids() end

--- The longest sequence that the model was made for.
---@return integer
function Checkpoint:max_position_embeddings() end

--- V: rows of the embedding.
---@return integer
function Checkpoint:vocab_size() end

function Checkpoint:close() end

--- A decoder: embedding, blocks and the final norm; the head is applied by an objective.
---@class moonring.Model
local Model = {}

--- The stream after the final norm. Differentiable: backward adds to the parameters' gradients. The residual stream, norms and rotary
--- embedding are fp32 (fp64 for fp64). Collective over the sp group by its attention.
---@param ids_T moonring.Tensor int64 [T_local], as `attention:cut` gives them
---@param positions_T moonring.Tensor int64 [T_local]
---@param plan moonring.AttentionPlan
---@return moonring.Tensor hidden_TD [T_local, D]
function Model:forward(ids_T, positions_T, plan) end

--- lm_head.weight, or the embedding where they are tied: [V, D].
---@return moonring.Parameter
function Model:head() end

--- All weights.
---@return moonring.Parameters
function Model:parameters() end

--- The dtype of its matrix products, to pass on to `objectives.log_prob`.
---@return "fp32" | "bf16" | "fp64"
function Model:matmul_dtype() end

--- Its query heads, its kv heads, and the numbers of a head.
---@return integer heads
---@return integer kv_heads
---@return integer head_dim
function Model:heads() end

--- Writes a Hugging Face folder that Transformers opens: config.json, the weights in their stored dtype (safetensors of at most
--- 5 GB each), tokenizer and other companions. Whole or not at all. By one rank.
---@param folder string made where it is missing
function Model:save(folder) end

--- Writes the gradients of what learns, under their weights' names, as one safetensors file; zeros where there is none. By one rank.
---@param path string
function Model:save_gradients(path) end

---@class moonring.GenerateOptions
---@field max_new_tokens? integer 128 where absent
---@field temperature? number 0, where absent: the likeliest token
---@field top_k? integer tokens considered; 0, where absent: all
---@field top_p? number the fewest tokens whose probabilities sum to it; 1 where absent
---@field repetition_penalty? number logits of ids already there are divided by it (multiplied where negative); 1 where absent
---@field stop_ids? integer[] ids that end the answer; none where absent
---@field seed? integer of the draws; 0 where absent

--- Decodes an answer on this rank alone, with a KV cache. A draw depends on (seed, number of the new token, logits): the same call
--- gives the same answer. Choices are made in the order of Transformers: penalty, temperature, top_k, top_p, draw.
---@param prompt integer[] token ids, one at least
---@param options? moonring.GenerateOptions
---@param on_token? fun(id: integer): boolean? sees each new id as it is made, but for a stop id; returning false ends the answer
---@return integer[] ids the new ones; the last is a stop id where one ended it
function Model:generate(prompt, options, on_token) end

function Model:close() end

return model
