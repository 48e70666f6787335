---@meta moonring.native.model

--- Opens, loads, adapts, saves and decodes models.
---@class moonring.native.model
local model = {}

--- Opens a checkpoint: a Hugging Face folder, a .gguf file, a folder with one, or builtin:NAME.
--- Reads only the files' headers and checks that every weight is present with the right shape.
--- Errors: NOT_FOUND, INVALID_ARGUMENT (a damaged file, a wrong shape), UNIMPLEMENTED (an
--- architecture that is not supported).
---@param path string
---@return moonring.Checkpoint
function model.open(path) end

--- Opens a folder with config.json as a model with newly initialized weights: a function of the
--- configuration and the seed, distributed as in Transformers and the same on every rank. Weight
--- files in the folder are ignored. Errors: as `open`, except those about weights; UNIMPLEMENTED
--- for a multimodal model of which only the text model is trained.
---@param path string
---@param seed integer
---@return moonring.Checkpoint
function model.open_fresh(path, seed) end

--- Opens a model's description without its weights: a folder with config.json, or the path of such
--- a file, is enough; other paths work as in `open`. `facts` and `parts` work; stored dtypes, files
--- and loading are not available. Errors: as `open`, except those about weights.
---@param path string
---@return moonring.Checkpoint
function model.open_config(path) end

--- The methods by which a tokenizer and its templates are read: `path` and `companion`, as in
--- moonring.Checkpoint.
---@class moonring.TokenizerFiles
---@field path fun(): string
---@field companion fun(self: moonring.TokenizerFiles, name: string): string?

--- Reads the small files next to a model's weights and config.json: tokenizer, chat template,
--- generation_config.json. Returns their contents by file name. Accepts a folder or a .gguf file.
---@param path string
---@return table<string, string>
function model.companions(path) end

--- Returns a checksum of a file's contents; for a file larger than 64 MiB, of a sample of 1/256 of
--- them. Errors: NOT_FOUND and other file errors, with the path.
---@param path string
---@return string
function model.file_mark(path) end

--- Returns a sentence for each open model file that was changed on disk since the last call. Each
--- change is reported once.
---@return string[]
function model.take_changed_files() end

--- Whether a file of this name is one that `companions` reads.
---@param name string
---@return boolean
function model.is_companion(name) end

---@class moonring.LoadOptions
--- "bf16" and "fp16": fp32 weights, matmuls in bf16 or fp16; "pure_bf16": weights and matmuls in
--- bf16; default "fp32"
---@field precision? "fp32" | "bf16" | "fp16" | "pure_bf16" | "fp64"
--- number of first layers that keep all their activations, whatever `recompute` says; default 0
---@field whole_layers? integer
--- number of layers after those that keep the output of attention and recompute the rest; default 0
---@field selective_layers? integer
--- bytes that one tile of rows may use in a block's MLP where the block is recomputed; 0: all rows
--- at once; default 64 MiB
---@field tile_bytes? integer
---@field work? moonring.WorkCount counts the weights that are read
---@field tile_rows? integer least number of rows in a tile; 0 or absent: 512 on the CPU, 8192 on a
---   GPU
---@field logit_rows? integer the value that logit_rows() returns to code that computes logits;
---   default 0
--- dtype of the residual stream: "bf16" only with matmuls in bf16; default fp32 (fp64 for precision
--- fp64)
---@field residual_dtype? "fp32" | "bf16" | "fp64"
--- library for fp32 matrix products on the CPU, in the format of the key cpu_products; default
--- "mkl"
---@field products? string
--- where the inputs of blocks are stored until their backward: "cpu": in host memory, for a model
--- on a GPU; "disk": in unnamed files in activation_dir, for a model on the CPU
---@field activation_offload? "cpu" | "disk"
---@field activation_dir? string folder for activation_offload = "disk"
--- what backward recomputes: "block": each block from its input; "selective": all of a block except
--- its attention; "none": nothing; default "block"
---@field recompute? "block" | "selective" | "none"
--- whether no weight is trained; matrices are then stored in the matmul dtype; default false
---@field frozen? boolean
--- adapter folders in PEFT's format, merged into the weights in this order; the sum is computed in
--- fp64 and rounded to the stored dtype once
---@field adapters? string[]
--- number of last blocks whose weights are trained (of first blocks if negative). If any of this
--- key and the next two is given, the others default to 2, {"all"} and no extra modules
---@field trainable_layers? integer
--- which modules of those blocks are trained: self_attn, mlp, input_layernorm,
--- post_attention_layernorm or all
---@field trainable_modules? string[]
---@field extra_modules? string[] trained modules outside the blocks: embed_tokens, norm, lm_head
--- quantization code in which the matrices of a frozen base are stored; each use unpacks them:
--- "nf4", "fp4", "int8"; "nf4 double" and "fp4 double" also quantize the scales; "file": the blocks
--- of a .gguf file unchanged
---@field pack? string
--- dtype in which weights are read before they are quantized; default "fp32"
---@field pack_dtype? "fp32" | "bf16" | "fp16"
--- whether weights are only rounded to the values that `pack` can represent, and stored unpacked;
--- default false
---@field pack_rounds_only? boolean
--- at stage 3 each weight is sharded over ranks while it is read; every rank must load the model
---@field zero? moonring.Zero
--- where the weights are stored; "cuda": on the GPU that `model.device` chose; default "cpu"
---@field device? "cpu" | "cuda"

--- Loads a model: reads every weight.
---@param checkpoint moonring.Checkpoint
---@param options? moonring.LoadOptions
---@return moonring.Model
function model.load(checkpoint, options) end

---@class moonring.AdaptOptions
---@field rank? integer rank of the low-rank matrices; default 8
---@field alpha? number their product is scaled by alpha / rank; default 2 rank
---@field dropout? number dropout rate on the adapter's input, in forwards that receive noise
---   options; default 0
---@field target? string[] linear modules by the end of their names; default {"all"}
--- modules that are trained as full copies of the base's (embed_tokens, lm_head, norm); default
--- none
---@field additional_target? string[]
---@field use_rslora? boolean scale by alpha / sqrt(rank); default false
---@field use_dora? boolean DoRA: the rows of the summed weight have a trained magnitude; default
---   false
--- OFT instead of low-rank matrices: the number (oft_rank) or the size (oft_block_size) of the
--- diagonal blocks of each layer's orthogonal matrix. The other one is 0 or absent. If the value
--- does not divide the layer's input features, the nearest that does is used
---@field oft_rank? integer
---@field oft_block_size? integer
---@field cayley_terms? integer terms of the Cayley-Neumann series; 0: exact; default 5
--- PiSSA: A and B are initialized from the largest singular values of the weight, computed by this
--- many iterations of a randomized SVD; -1: by a full SVD
---@field pissa_iter? integer
---@field seed? integer seed of the initial values; default 0
--- PEFT folder from which an adapter is read to train it further. Only `dropout`, which replaces
--- the folder's, and `seed`, which is then unused, may be given with it
---@field path? string

--- Returns the model with an adapter: a new one, which at first does not change the output, or one
--- read from a folder. The base must be frozen; it shares its weights with the result and can still
--- be run by itself. Errors: NOT_FOUND; INVALID_ARGUMENT for a folder that is damaged or made for
--- another base, and for a target that is not a linear module; UNIMPLEMENTED for an unsupported
--- PEFT option.
---@param base moonring.Model
---@param options? moonring.AdaptOptions
---@return moonring.Model
function model.adapt(base, options) end

--- Returns the size of the diagonal blocks of OFT's orthogonal matrix for a layer with this many
--- input features: `block_size`, or inputs / `blocks`, or the nearest value that divides `inputs`.
--- One of `blocks` and `block_size` is 0.
---@param inputs integer
---@param blocks integer
---@param block_size integer
---@return integer
function model.rotated_block(inputs, blocks, block_size) end

--- Resolves a requested device: "auto" is "cuda" if this build and this machine have a GPU. On a
--- machine with several GPUs each rank uses the one of its LOCAL_RANK once its mesh is created.
--- Errors: FAILED_PRECONDITION for "cuda" without a GPU.
---@param asked "auto" | "cpu" | "cuda"
---@return "cpu" | "cuda"
function model.device(asked) end

--- Returns where block inputs are stored until their backward, by the same rule as `load`: "memory"
--- is where they were computed, so "cpu" moves nothing for a model on the CPU. Errors:
--- INVALID_ARGUMENT for an unknown word, and for "disk" with a model that is not on the CPU.
---@param offload? "cpu" | "disk"
---@param device "cpu" | "cuda"
---@return "memory" | "host" | "disk"
function model.activation_place(offload, device) end

---@class moonring.ProductShapes
---@field rows? integer rows of the input of a forward pass
---@field outputs? integer output features of a typical wide weight
---@field inputs? integer its input features
---@field narrow? integer the smaller side of the narrow weights (less than 256)

--- Measures, for about 100 ms, which library computes fp32 matrix products of these sizes fastest
--- on this CPU. Returns it in the format of the key cpu_products. The result may differ between
--- machines and between calls.
---@param options? moonring.ProductShapes
---@return string
function model.fastest_products(options) end

--- Returns a value of the key cpu_products unchanged if it is valid. Errors: INVALID_ARGUMENT
--- otherwise.
---@param text string
---@return string
function model.checked_products(text) end

--- Number of GPUs that this build can use on this machine.
---@return integer
function model.gpus() end

---@class moonring.GpuMemory
---@field free number bytes that are not allocated
---@field total number bytes in total

--- Returns the memory of this rank's GPU. Errors: FAILED_PRECONDITION without a GPU, or in a build
--- without CUDA.
---@return moonring.GpuMemory
function model.gpu_memory() end

--- A model's files on disk, not loaded yet.
---@class moonring.Checkpoint
local Checkpoint = {}

--- The path from which it was opened.
---@return string
function Checkpoint:path() end

--- The name that saved files use for this model; its path unless `set_name` was called.
---@return string
function Checkpoint:name() end

--- Sets the name that saved files use.
---@param name string
function Checkpoint:set_name(name) end

--- The sorted paths of the weight files; {} for newly initialized weights.
---@return string[]
function Checkpoint:files() end

--- The text of config.json, including any change by `scale_rope`.
---@return string
function Checkpoint:config_json() end

--- Returns the text of a file that belongs to the model ("tokenizer.json", "tokenizer_config.json",
--- "generation_config.json", "chat_template.jinja", ...), or nil. For a GGUF file it is generated
--- from the metadata.
---@param name string
---@return string?
function Checkpoint:companion(name) end

---@class moonring.CheckpointFacts
---@field architecture string such as "LlamaForCausalLM"
---@field family string for display: "Llama 2 and 3, ..."
---@field layers integer
---@field hidden_size integer
---@field intermediate_size integer of a dense MLP
---@field heads integer query heads
---@field kv_heads integer
---@field head_dim integer
---@field attention_value_dim integer value features of a head of softmax attention
---@field query_rank integer rank of the query projection of latent attention (MLA); 0: queries are
---   projected directly
---@field key_value_rank integer rank of the key-value projection of latent attention; 0: the model
---   has none
---@field rotary_dim integer features of a head of latent attention that the rotary embedding
---   rotates
---@field vocab_size integer
---@field max_position_embeddings integer
---@field experts integer experts in a layer; 0: none
---@field experts_chosen integer experts that each token is routed to
---@field expert_layers integer layers with experts
---@field expert_parameters integer parameters of all experts in all layers
---@field experts_stacked boolean whether all experts of a layer are stored in two tensors
---@field expert_intermediate_size integer
--- features inside the shared expert, which processes every token; 0: none
---@field shared_expert_size integer
---@field dense_beside_experts boolean whether layers with experts also have a dense MLP
---@field mlp_layers integer layers with an MLP or experts
---@field unmixed_layers integer layers that are only an MLP or experts, without attention or
---   another mixer
---@field gated_mlp boolean whether MLPs and experts have a gate
---@field expert_width integer input features of the routed experts; 0: those of the residual stream
--- whether the rotary embedding depends on the document's length, not only on positions
---@field rotary_depends_on_length boolean
---@field attention_layers integer layers with softmax attention
---@field delta_layers integer layers with linear attention (gated delta rule)
---@field convolution_layers integer layers with a short convolution as mixer
---@field key_heads integer key heads of linear attention, as the next three fields; 0: none
---@field value_heads integer
---@field key_dim integer features of a key head
---@field value_dim integer features of a value head
---@field state_space_layers integer layers with a state space model
---@field state_heads integer heads of the state space model, as the next four fields; 0: none
---@field state_head_dim integer
---@field state_groups integer groups of heads that share the B and C projections
---@field states integer state size of each channel of a head
---@field state_taps integer width of the convolution before it
---@field decay_by_channel boolean whether linear attention has one decay for each key channel
---   instead of one for each head
---@field turning_layers integer layers with a rotary embedding
---@field delta_taps integer width of the convolution before the delta rule
---@field convolution_taps integer width of a short convolution; 0: none
---@field sliding_layers integer layers with sliding-window attention
---@field window integer tokens in that window, including the query's own; 0: no layer has one
---@field softcap number soft bound of attention scores (softcap tanh(x / softcap)); 0: none
---@field logit_softcap number soft bound of logits; 0: none
---@field tied boolean whether the head shares the embedding's weight
---@field dtypes string[] dtypes of the weights in the files
---@field bytes number bytes of the weights in the files

--- The model's sizes and architecture switches.
---@return moonring.CheckpointFacts
function Checkpoint:facts() end

---@class moonring.CheckpointPart
--- "embedding", "attention", "linear attention", "convolution", "state space", "mlp", "experts",
--- "router", "shared expert", "norms" or "head"
---@field name string
---@field parameters integer
---@field active integer parameters among them that one token uses

--- Parameter counts by kind of module, in the order of a forward pass. A tied head is counted as
--- embedding.
---@return moonring.CheckpointPart[]
function Checkpoint:parts() end

---@class moonring.WeightShape
---@field name string Hugging Face name
---@field shape integer[]

--- Names and shapes of all weights, from the embedding to the head.
---@return moonring.WeightShape[]
function Checkpoint:weight_shapes() end

---@class moonring.LinearMap
---@field module string "model.layers.0.self_attn.q_proj"
---@field rows integer
---@field columns integer

--- The linear layers that an adapter can be put on: all except the head.
---@return moonring.LinearMap[]
function Checkpoint:linear_maps() end

---@class moonring.PackedSizes
---@field numbers integer elements of the quantized matrices
---@field bytes integer their bytes when quantized
---@field layer_numbers integer elements in the layer with the most of them
---@field layer_bytes integer bytes of that layer's

--- Size of the matrices that `model.load` would quantize under a code of its option `pack`.
---@param code string
---@return moonring.PackedSizes
function Checkpoint:packed_sizes(code) end

---@class moonring.GgufOptions
---@field type "f32" | "f16" | "bf16" | "q8_0" type of the weights; norms and biases are always F32
---@field name? string general.name of the file; default none

--- Checks, before weights are loaded, that the model can be written as a .gguf file. Errors:
--- UNIMPLEMENTED for an architecture, a configuration or a tokenizer that GGUF cannot represent.
---@param path string used in messages
---@param options moonring.GgufOptions
---@return string[] notes one line for each thing that the file will not contain
function Checkpoint:check_gguf(path, options) end

--- Names of weights in the files that the model does not use.
---@return string[]
function Checkpoint:extra_weights() end

--- Names of the weights in the files of a multimodal model that are not part of its text model.
--- They are not trained and are saved unchanged.
---@return string[]
function Checkpoint:carried_weights() end

--- The ids that end an answer according to config.json: none, one or several.
---@return integer[]
function Checkpoint:eos_token_ids() end

--- The rotary embedding in words: "default", or "yarn, factor 4 over 32768 positions, cosines times
--- 1.1386".
---@return string
function Checkpoint:rope() end

--- The kind of rotary embedding.
---@return "default" | "linear" | "dynamic" | "yarn" | "llama3" | "longrope"
function Checkpoint:rope_kind() end

--- Scales the rotary embedding of models that are loaded from this checkpoint later, and of what
--- they save, for texts of `length` tokens, by the factor ceil(length / context). Does nothing if
--- they fit into the context already or the model has no rotary embedding to scale. Errors:
--- INVALID_ARGUMENT for another kind.
---@param kind "linear" | "dynamic" | "yarn" | "llama3"
---@param length integer
---@return string report one line: the new rotary embedding, or why nothing was changed
function Checkpoint:scale_rope(kind, length) end

--- The longest sequence that the model was trained for, in tokens.
---@return integer
function Checkpoint:max_position_embeddings() end

--- The dtype of the weights according to config.json; "fp32" if that has none.
---@return "fp32" | "bf16" | "fp16" | "fp64"
function Checkpoint:dtype() end

--- V: rows of the embedding.
---@return integer
function Checkpoint:vocab_size() end

--- Makes room for this many tokens in models that are loaded from this checkpoint later, and in
--- what they save. If the embedding has fewer rows, it and an untied head are extended to a
--- multiple of 64 rows; new rows are the mean of the old ones plus noise.
---@param tokens integer
---@param seed integer seed of the noise
function Checkpoint:grow_vocabulary(tokens, seed) end

--- The names of the modules with one row for each token: the embedding and the head.
---@return string[]
function Checkpoint:vocabulary_modules() end

--- Sets files that models loaded later save next to their weights, replacing the checkpoint's files
--- of the same names.
---@param files table<string, string> contents by file name
function Checkpoint:replace_companions(files) end

--- Sets the eos id for models that are loaded later: they save it as eos in config.json, and in
--- generation_config.json before the ids that are already there.
---@param eos integer
function Checkpoint:end_with(eos) end

function Checkpoint:close() end

--- A decoder: embedding, blocks and the final norm. The head is applied by the objective.
---@class moonring.Model
local Model = {}

--- Options for LoRA dropout and NEFTune noise. These are active only if seed, step and identity are
--- all given; the noise is a function of seed, step, token and module.
---@class moonring.NoiseOptions
---@field seed? integer
---@field step? integer
---@field identity? moonring.Tensor int64 [T_local], a number for each token, cut over ranks as the
---   ids are
--- NEFTune noise on the embeddings, uniform in +-neftune_alpha / sqrt(L D); 0 or absent: none
---@field neftune_alpha? number
--- int64 [T_local], L: the number of tokens of each row's document; required with neftune_alpha
---@field lengths? moonring.Tensor

---@class moonring.ForwardOptions: moonring.NoiseOptions
--- int64 [T_local], from 0: the group in which each token's expert routing is counted; nothing is
--- counted if absent
---@field router_groups? moonring.Tensor
---@field router_group_count? integer number of groups; required with router_groups
--- layers after which hidden states are returned: 0 after the embedding, k after the k-th block
--- (model.layers.<k-1>), before the final norm; default none
---@field states? integer[]
--- layer after which the forward stops, without the final norm: later blocks are not run; default
--- all
---@field upto? integer
--- Lua hook that is called with the hidden states after each layer and returns their replacement,
--- of the same shape, dtype and device, or nothing to keep them; or a table of functions of
--- hidden_TD by layer. It runs only in the forward and is differentiated through the operators that
--- it uses. On ranks that share a sequence each rank passes its own rows, possibly none, so it must
--- be the same row-wise function on each of them. Tensors created in it are closed at its end, as
--- by `moonring.scope`
---@field around? fun(layer: integer, hidden_TD: moonring.Tensor): moonring.Tensor?

--- Computes the hidden states after the final norm. Differentiable: backward adds to the gradients
--- of the parameters. The residual stream, norms and rotary embedding are fp32 by default (fp64 for
--- fp64). Collective over the sp group, because attention communicates.
---@param ids_T moonring.Tensor int64 [T_local], as `attention:cut` returns them
---@param positions_T moonring.Tensor int64 [T_local]
---@param plan moonring.AttentionPlan
---@param options? moonring.ForwardOptions
---@return moonring.Tensor hidden_TD [T_local, D]
---@return table<integer, moonring.Tensor>? states_TD by layer, those that `states` asks for, after
---   `around`: [T_local, D], differentiable. Must not be written to; nil without `states`
---@return moonring.Tensor? probability_GE [groups, experts], sums of the routers' probabilities
---   over this rank's tokens and all layers with a router; differentiable. This and the next result
---   are nil without experts or router_groups
---@return moonring.Tensor? chosen_GE int64 [groups, experts]: number of times that each expert was
---   chosen
function Model:forward(ids_T, positions_T, plan, options) end

--- Applies the final norm to hidden states of a layer, as input for a head. Differentiable.
---@param hidden_TD moonring.Tensor [T, D]
---@return moonring.Tensor [T, D]
function Model:norm(hidden_TD) end

---@class moonring.FirstNonFiniteOptions: moonring.NoiseOptions
---@field upto? integer as in Model:forward
--- as in Model:forward; its results are checked too
---@field around? fun(layer: integer, hidden_TD: moonring.Tensor): moonring.Tensor?

--- Finds the first module, in the order of a forward pass, after which this rank's hidden states
--- contain a NaN or an infinity. Runs a forward without gradients. Collective over the sp group.
---@param ids_T moonring.Tensor int64 [T_local]
---@param positions_T moonring.Tensor int64 [T_local]
---@param plan moonring.AttentionPlan
---@param options? moonring.FirstNonFiniteOptions
---@return integer index of the module, from 1; 0: all values are finite
---@return string module its Hugging Face name; "" if all values are finite
function Model:first_nonfinite(ids_T, positions_T, plan, options) end

--- The output head, which maps hidden states to logits.
---@return moonring.Head
function Model:head() end

--- Number of experts in a layer (0: the model has none), and number of them that each token is
--- routed to.
---@return integer count
---@return integer chosen
function Model:experts() end

--- All weights; for an adapted model only the adapter's, under PEFT's names.
---@return moonring.Parameters
function Model:parameters() end

--- The model without the adapter; nil if it has none.
---@return moonring.Model?
function Model:base() end

--- Whether the adapter is PiSSA, which also stores the initial values of A and B.
---@return boolean
function Model:has_first_values() end

--- Descriptions of adapter weights that were read but are not trained: "low-rank weights of
--- embed_tokens", "2 tokens' rows of embed_tokens", ...
---@return string[]
function Model:fixed_parts() end

---@class moonring.ValueHeadOptions
---@field seed? integer seed of the initial values; default 0

--- Creates a reward model's value head: read from value_head.safetensors in the adapter's folder
--- (the model's folder without an adapter) if it is there, else newly initialized.
---@param options? moonring.ValueHeadOptions
---@return moonring.ValueHead
function Model:value_head(options) end

--- A digest of 40 hexadecimal digits over names, shapes, dtypes and bytes of all weights (and an
--- adapter's scale).
---@return string
function Model:digest() end

--- The dtype of matrix products, for the option `dtype` of `objectives.log_prob`.
---@return "fp32" | "bf16" | "fp16" | "fp64"
function Model:matmul_dtype() end

--- The library for fp32 matrix products on the CPU, including the head's, as it was loaded.
---@return string
function Model:products() end

--- The option `tile_bytes` with which it was loaded; 0: all rows at once.
---@return integer
function Model:tile_bytes() end

--- The option `logit_rows` with which it was loaded: least number of rows of logits to compute at a
--- time; 0: chosen by device.
---@return integer
function Model:logit_rows() end

--- Numbers of query heads and kv heads, features of a query or key head, features of a value head.
---@return integer heads
---@return integer kv_heads
---@return integer head_dim
---@return integer value_dim
function Model:heads() end

--- Number of layers with attention that has no sliding window.
---@return integer
function Model:whole_attention_layers() end

---@class moonring.SaveOptions
---@field dtype? "fp32" | "bf16" | "fp16" | "fp64" dtype of the saved weights; default: as they are
---   stored in memory
---@field shard_bytes? integer largest size of a safetensors file; default 5e9
---@field work? moonring.WorkCount counts the weights that are written; not for an adapter
--- false: this rank only takes part in gathering sharded weights, while another one writes; default
--- true
---@field write? boolean
--- false: the files are not flushed to disk, the caller does that; default true
---@field flush? boolean
--- for a PiSSA adapter: saves an equivalent LoRA adapter of twice the rank for the original base;
--- default false
---@field converted? boolean

--- Writes a Hugging Face folder that Transformers can open: config.json, weights, tokenizer and
--- other companion files. For an adapted model writes a folder that PEFT can open
--- (adapter_config.json, adapter_model.safetensors, tokenizer); its only options are `write`,
--- `flush` and `converted`. The folder is written completely or not at all. One rank writes; if
--- weights are sharded over ranks, every rank must call it.
---@param folder string created if missing
---@param options? moonring.SaveOptions
function Model:save(folder, options) end

--- Writes one .gguf file with the weights, the configuration and the tokenizer, completely or not
--- at all. Errors: as check_gguf; INVALID_ARGUMENT for a value that is not finite or too large for
--- the type, for a model with an adapter, and for weights that are sharded over ranks.
---@param path string its folder is created if missing
---@param options table as in check_gguf, and `flush` as in `save`
function Model:save_gguf(path, options) end

--- Writes the gradients of all trained weights, under the weights' names, as one safetensors file;
--- zeros for a weight without a gradient. Collective as `save`.
---@param path string
---@param options? table { write }
function Model:save_gradients(path, options) end

---@class moonring.GenerateOptions
---@field max_new_tokens? integer default 128
---@field temperature? number 0 or absent: greedy decoding
---@field top_k? integer number of most likely tokens to sample from; 0 or absent: all
---@field top_p? number samples from the smallest set of tokens whose probabilities sum to this;
---   default 1
--- logits of tokens already in the text are divided by this (multiplied if negative); default 1
---@field repetition_penalty? number
---@field stop_ids? integer[] ids that end the answer; default none
---@field seed? integer seed of the sampling; default 0
--- as in Model:forward, called for all decoded rows: at most 512 rows of the prompt at a time, then
--- each new token
---@field around? fun(layer: integer, hidden_TD: moonring.Tensor): moonring.Tensor?

--- Generates an answer on this rank only, with a KV cache. Sampling depends only on (seed, index of
--- the new token, logits), so the same call returns the same answer. Steps are in the order of
--- Transformers: penalty, temperature, top_k, top_p, sampling.
---@param prompt integer[] token ids, at least one
---@param options? moonring.GenerateOptions
---@param on_token? fun(id: integer): boolean? called with each new id except a stop id; ends the
---   answer by returning false
---@return integer[] ids the new ones, including the stop id that ended the answer
function Model:generate(prompt, options, on_token) end

---@class moonring.RolloutPrompt
---@field ids integer[] token ids, at least one
---@field key? integer number that keys the sampling of its answers, such as the example's index;
---   default 0

---@class moonring.RolloutOptions
---@field answers? integer number of answers for each prompt; default 1
---@field max_new_tokens? integer default 128
---@field temperature? number 0 or absent: greedy decoding
---@field top_k? integer number of most likely tokens to sample from; 0 or absent: all
---@field top_p? number samples from the smallest set of tokens whose probabilities sum to this;
---   default 1
---@field min_p? number least probability of a token, as a fraction of the largest; default 0
--- logits of tokens already in the text are divided by this (multiplied if negative); default 1
---@field repetition_penalty? number
---@field stop_ids? integer[] ids that end an answer; default none
---@field seed? integer seed of the sampling; default 0
---@field sequences? integer number of answers that are decoded at the same time; default 32
--- whether weights that need another dtype are cast once, in the first forward, and kept; false:
--- each forward casts them; default true
---@field keep_casts? boolean
--- mesh of the ranks that share weights (zero_stage 3, expert parallelism): each rank calls this
--- with its own prompts, and all ranks run as many forwards as the rank that needs most. Absent:
--- this rank runs independently
---@field lockstep? moonring.Mesh
--- the run's attention, for sequence parallelism: the ranks of its sp group decode every sequence
--- together and call this with the same prompts. Prompts are processed by the attention strategy,
--- and each rank keeps the keys and values of its tokens. Absent, or sp = 1: sequences are local to
--- this rank
---@field attention? moonring.Attention
--- as in Model:forward, called for all rows: at most 512 rows of prompts at a time, and rows of
--- answers
---@field around? fun(layer: integer, hidden_TD: moonring.Tensor): moonring.Tensor?

---@class moonring.RolloutAnswer
---@field ids integer[] the new ones, including the stop id that ended the answer
---@field stopped boolean whether a stop id ended it; else max_new_tokens or the model's context
---   length did
--- log-probability of each id under softmax(logits / temperature) (temperature 1 if 0), before
--- penalty, top_k, top_p and min_p
---@field log_probs number[]

--- Generates answers to many prompts at once, on this rank. A prompt is computed once for all its
--- answers, and an answer that ends frees its slot immediately (continuous batching). Sampling
--- depends only on (seed, the prompt's key, index of the answer, index of the new token) and the
--- logits, so answers do not depend on which others run at the same time. Steps are in the order of
--- Transformers: penalty, temperature, top_k, top_p, min_p, sampling.
---@param prompts moonring.RolloutPrompt[]
---@param options? moonring.RolloutOptions
---@return moonring.RolloutAnswer[][] answers by prompt, then by answer
function Model:rollout(prompts, options) end

function Model:close() end

--- The output head: logits = cap(scale weight . hidden), cap(x) = softcap tanh(x / softcap), or x
--- if softcap is 0. Applied by objectives.
---@class moonring.Head
local Head = {}

--- lm_head.weight, or the embedding if they are tied: [V, D].
---@return moonring.Parameter
function Head:weight() end

--- The factor of the product; 1 in most models.
---@return number
function Head:scale() end

--- The soft bound of the logits; 0: none.
---@return number
function Head:softcap() end

function Head:close() end

--- A reward model's head: one score for each token, hidden . weight + bias. Applied by objectives.
---@class moonring.ValueHead
local ValueHead = {}

--- v_head.summary.weight [1, D].
---@return moonring.Parameter
function ValueHead:weight() end

--- v_head.summary.bias [1].
---@return moonring.Parameter
function ValueHead:bias() end

--- Weight and bias.
---@return moonring.Parameters
function ValueHead:parameters() end

--- The dropout rate of its input during training: summary_dropout_prob of config.json, else 0.1.
---@return number
function ValueHead:dropout() end

--- Whether it was read from a file; else it is newly initialized.
---@return boolean
function ValueHead:found() end

--- Writes value_head.safetensors. Options and collectivity as in Model:save.
---@param folder string created if missing
---@param options? table { write, flush }
function ValueHead:save(folder, options) end

function ValueHead:close() end

return model
