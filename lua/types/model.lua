---@meta moonring.native.model

--- Opens, loads, adapts, saves and decodes models.
---@class moonring.native.model
local model = {}

--- Opens a checkpoint: a Hugging Face folder, a .gguf file, a folder with one, or builtin:NAME (a
--- model that is part of Moonring). Reads only the headers of the weight files, and checks that
--- every weight is present with the right shape. Errors: NOT_FOUND, INVALID_ARGUMENT (a damaged
--- file, a wrong shape), UNIMPLEMENTED (an architecture that is not supported).
---@param path string
---@return moonring.Checkpoint
function model.open(path) end

--- Opens a folder with config.json as a model with newly initialized weights. The weights depend
--- only on the configuration and the seed, are distributed as in Transformers, and are the same on
--- every rank. Weight files in the folder are ignored. Errors: as `open`, except those about
--- weights; UNIMPLEMENTED for a multimodal model of which only the text model is trained.
---@param path string
---@param seed integer
---@return moonring.Checkpoint
function model.open_fresh(path, seed) end

--- Opens a model's description without its weights: a folder with config.json, or the path of such
--- a file, is enough; other paths work as in `open`. The result has `facts` and `parts`; its stored
--- dtypes and files are unknown, and it cannot be loaded. Errors: as `open`, except those about
--- weights.
---@param path string
---@return moonring.Checkpoint
function model.open_config(path) end

--- An object from which a tokenizer and its templates can be read. It has the methods `path` and
--- `companion` of moonring.Checkpoint.
---@class moonring.TokenizerFiles
---@field path fun(): string
---@field companion fun(self: moonring.TokenizerFiles, name: string): string?

--- Reads the small files next to a model's weights: tokenizer, chat template,
--- generation_config.json. Returns their contents by file name. Accepts the path of a folder or of
--- a .gguf file.
---@param path string
---@return table<string, string>
function model.companions(path) end

--- Returns a checksum of a file's contents. For a file larger than 64 MiB only a sample of 1/256 of
--- the contents is read. Errors: NOT_FOUND and other file errors, with the path.
---@param path string
---@return string
function model.file_mark(path) end

--- Returns a sentence for each file of a loaded model that was changed on disk since the last call.
--- Each change is reported once.
---@return string[]
function model.take_changed_files() end

--- Whether `companions` reads files of this name.
---@param name string
---@return boolean
function model.is_companion(name) end

---@class moonring.LoadOptions
---@field precision? "fp32" | "bf16" | "fp16" | "pure_bf16" | "fp64" with "bf16" and "fp16": fp32
---   weights, matmuls in bf16 or fp16; "pure_bf16": weights and matmuls in bf16; default "fp32"
---@field whole_layers? integer number of first layers that keep all their activations for the
---   backward, whatever `recompute` says; default 0
---@field selective_layers? integer number of layers after those of whole_layers that keep only the
---   output of attention and recompute the rest; default 0
---@field tile_bytes? integer a recomputed block processes its MLP in tiles of rows: the bytes that
---   one tile may use; 0: all rows at once; default 64 MiB
---@field work? moonring.WorkCount progress counter, to which each weight that was read is added
---@field tile_rows? integer least number of rows in a tile; 0 or absent: 512 on the CPU, 8192 on a
---   GPU
---@field logit_rows? integer a value for code that computes logits, which Model:logit_rows returns;
---   default 0
---@field residual_dtype? "fp32" | "bf16" | "fp64" dtype of the residual stream; "bf16" is only
---   possible if matmuls are in bf16; default fp32 (fp64 if precision is fp64)
---@field products? string library for fp32 matrix products on the CPU, in the format of the key
---   cpu_products; default "mkl"
---@field activation_offload? "cpu" | "disk" where the inputs of blocks are stored until the
---   backward needs them: "cpu": in host memory, for a model on a GPU; "disk": in unnamed files in
---   activation_dir, for a model on the CPU. Absent: where they were computed
---@field activation_dir? string folder for activation_offload = "disk"
---@field recompute? "block" | "selective" | "none" what the backward recomputes: "block": each
---   block, from its input; "selective": everything in a block except attention; "none": nothing;
---   default "block"
---@field frozen? boolean whether the weights are not trained; matrices are then stored in the dtype
---   of matmuls; default false
---@field adapters? string[] folders of adapters in PEFT's format. They are merged into the weights
---   in this order; the sum is computed in fp64 and rounded once to the stored dtype
---@field trainable_layers? integer freeze tuning: number of last blocks whose weights are trained
---   (negative: number of first blocks). If one of trainable_layers, trainable_modules and
---   extra_modules is given, the others default to 2, {"all"} and no modules
---@field trainable_modules? string[] freeze tuning: which modules of those blocks are trained:
---   self_attn, mlp, input_layernorm, post_attention_layernorm or all
---@field extra_modules? string[] freeze tuning: trained modules outside the blocks: embed_tokens,
---   norm, lm_head
---@field pack? string quantization of a frozen base model: the code in which its matrices are
---   stored; each use unpacks them. "nf4", "fp4", "int8"; "nf4 double" and "fp4 double" also
---   quantize the scales; "file": the matrices stay as they are quantized in a .gguf file
---@field pack_dtype? "fp32" | "bf16" | "fp16" dtype to which weights are converted before they are
---   quantized; default "fp32"
---@field pack_rounds_only? boolean whether weights are only rounded to the values that the code
---   `pack` can represent, and are stored without packing; default false
---@field zero? moonring.Zero ZeRO settings: at stage 3 each weight is sharded over ranks while it
---   is read, so every rank must load the model
---@field device? "cpu" | "cuda" where the weights are stored; "cuda" is the GPU that `model.device`
---   chose; default "cpu"

--- Loads a model: reads every weight.
---@param checkpoint moonring.Checkpoint
---@param options? moonring.LoadOptions
---@return moonring.Model
function model.load(checkpoint, options) end

---@class moonring.AdaptOptions
---@field rank? integer rank of the low-rank matrices; default 8
---@field alpha? number the product of the low-rank matrices is scaled by alpha / rank; default 2
---   rank
---@field dropout? number dropout rate on the adapter's input, used in forwards that receive
---   NoiseOptions; default 0
---@field target? string[] ends of the names of the linear modules that get an adapter; default
---   {"all"}: all except the head. "lm_head" may be named as well: plain LoRA on the head, whether
---   it is tied to the embedding or not
---@field additional_target? string[] modules whose full weights are copied from the base and
---   trained (embed_tokens, lm_head, norm); default none
---@field use_rslora? boolean whether the scale is alpha / sqrt(rank); default false
---@field use_dora? boolean whether to use DoRA: each row of the adapted weight also has a trained
---   magnitude; default false
---@field oft_rank? integer OFT (orthogonal finetuning) instead of low-rank matrices. Each layer
---   gets an orthogonal matrix of diagonal blocks; either their number (oft_rank) or their size
---   (oft_block_size) is given, and the other value is 0 or absent. If the value does not divide
---   the layer's number of input features, the nearest value that does is used
---@field oft_block_size? integer
---@field cayley_terms? integer OFT: number of terms of the Cayley-Neumann series; 0: exact; default
---   5
---@field pissa_iter? integer PiSSA: A and B are initialized from the largest singular values of the
---   weight. The value is the number of iterations of a randomized SVD; -1: a full SVD
---@field seed? integer seed of the initial values; default 0
---@field path? string PEFT folder with an adapter to train further. The only other options allowed
---   with it are `dropout`, which replaces the folder's value, and `seed`, which is then ignored

--- Returns the model with an adapter: a new adapter, which at first does not change the output, or
--- one that is read from a folder. The base must be frozen. The result shares the base's weights,
--- and the base can still be run by itself. Errors: NOT_FOUND; INVALID_ARGUMENT for a folder that
--- is damaged or was made for another base, and for a target that is not a linear module;
--- UNIMPLEMENTED for an unsupported PEFT option.
---@param base moonring.Model
---@param options? moonring.AdaptOptions
---@return moonring.Model
function model.adapt(base, options) end

--- Returns a frozen copy of the model as it is now: a snapshot, which later steps do not change. It
--- can run forwards and rollouts, and be saved. Of a model with an adapter only the adapter's
--- weights are copied, and the base is shared; of any other model all weights are. Weights that are
--- sharded over ranks (ZeRO stage 3) are whole on each rank in the copy. Collective over all ranks.
---@param of moonring.Model
---@return moonring.Model
function model.copy(of) end

--- Returns the size of the diagonal blocks of OFT's orthogonal matrix for a layer with `inputs`
--- input features: `block_size`, or inputs / `blocks`, or the nearest value that divides `inputs`.
--- One of `blocks` and `block_size` must be 0.
---@param inputs integer
---@param blocks integer
---@param block_size integer
---@return integer
function model.rotated_block(inputs, blocks, block_size) end

--- Returns the device for a requested one: "auto" is "cuda" if this build and this machine can use
--- a GPU. On a machine with several GPUs each rank uses the GPU with the number LOCAL_RANK after
--- the mesh was created. Errors: FAILED_PRECONDITION for "cuda" without a GPU.
---@param asked "auto" | "cpu" | "cuda"
---@return "cpu" | "cuda"
function model.device(asked) end

--- Returns where `load` stores the inputs of blocks until the backward: "memory" is the memory of
--- the device that computed them, "host" that of the CPU for a model on a GPU. The offload "cpu"
--- has no effect for a model on the CPU. Errors: INVALID_ARGUMENT for an unknown word, and for
--- "disk" with a model that is not on the CPU.
---@param offload? "cpu" | "disk"
---@param device "cpu" | "cuda"
---@return "memory" | "host" | "disk"
function model.activation_place(offload, device) end

---@class moonring.ProductShapes
---@field rows? integer number of rows of the input of a forward pass
---@field outputs? integer number of output features of a typical wide weight
---@field inputs? integer number of input features of that weight
---@field narrow? integer smaller dimension of the narrow weights (less than 256)

--- Measures, for about 100 ms, which library computes fp32 matrix products of these sizes fastest
--- on this CPU. Returns the result in the format of the key cpu_products. It may differ between
--- machines and between calls.
---@param options? moonring.ProductShapes
---@return string
function model.fastest_products(options) end

--- Checks a value of the key cpu_products and returns it. Errors: INVALID_ARGUMENT if it is not
--- valid.
---@param text string
---@return string
function model.checked_products(text) end

--- Number of GPUs that this build can use on this machine.
---@return integer
function model.gpus() end

---@class moonring.GpuMemory
---@field free number bytes that are free
---@field total number bytes in total

--- Returns the memory of this rank's GPU. Errors: FAILED_PRECONDITION without a GPU, or in a build
--- without CUDA.
---@return moonring.GpuMemory
function model.gpu_memory() end

--- A model's files on disk. The weights are not loaded yet.
---@class moonring.Checkpoint
local Checkpoint = {}

--- The path from which the checkpoint was opened.
---@return string
function Checkpoint:path() end

--- The name of the model in saved files; the checkpoint's path unless `set_name` was called.
---@return string
function Checkpoint:name() end

--- Sets the name of the model in saved files.
---@param name string
function Checkpoint:set_name(name) end

--- The sorted paths of the weight files; {} for a model with newly initialized weights.
---@return string[]
function Checkpoint:files() end

--- The text of config.json, with the change that `scale_rope` made to it, if any.
---@return string
function Checkpoint:config_json() end

--- Returns the text of a file that belongs to the model ("tokenizer.json", "tokenizer_config.json",
--- "generation_config.json", "chat_template.jinja", ...); nil if there is no such file. For a GGUF
--- file the text is generated from its metadata.
---@param name string
---@return string?
function Checkpoint:companion(name) end

--- A layer's computation in place of softmax attention: a recurrence with a convolution before it,
--- or a convolution alone (then value_heads is 0).
---@class moonring.MixerWork
---@field layers integer
---@field key_heads integer heads of keys and queries
---@field value_heads integer heads of values, a multiple of key_heads
---@field key_dim integer
---@field value_dim integer
---@field channels integer channels of the convolution
---@field taps integer width of the convolution; 0: there is none
---@field reordered boolean whether the mixed tensors also exist in another order

--- A kind of mixer that some layers of a model have.
---@class moonring.MixerFacts
---@field text string the mixer with its sizes, for people
---@field layers integer number of layers with it
---@field work? moonring.MixerWork nil for softmax attention

---@class moonring.CheckpointFacts
---@field architecture string such as "LlamaForCausalLM"
---@field family string name of the architecture's family for display: "Llama 2 and 3, ..."
---@field layers integer
---@field hidden_size integer
---@field intermediate_size integer hidden features of a dense MLP
---@field heads integer query heads
---@field kv_heads integer
---@field head_dim integer
---@field attention_value_dim integer value features of a head of softmax attention
---@field query_rank integer rank of the query projection of latent attention (MLA); 0: queries are
---   projected directly
---@field key_value_rank integer rank of the key-value projection of latent attention; 0: the model
---   has none
---@field rotary_dim integer latent attention: number of features of a head that the rotary
---   embedding rotates
---@field vocab_size integer
---@field max_position_embeddings integer
---@field experts integer experts in a layer; 0: none
---@field experts_chosen integer number of experts that each token is routed to
---@field expert_layers integer number of layers with experts
---@field expert_parameters integer number of parameters of all experts in all layers
---@field experts_stacked boolean whether all experts of a layer are stored in two tensors
---@field expert_intermediate_size integer
---@field shared_expert_size integer hidden features of the shared expert, which processes every
---   token; 0: there is none
---@field dense_beside_experts boolean whether layers with experts also have a dense MLP
---@field mlp_layers integer layers with an MLP or experts
---@field unmixed_layers integer layers that are only an MLP or experts, without attention or
---   another mixer
---@field gated_mlp boolean whether MLPs and experts have a gate
---@field expert_width integer number of input features of the routed experts; 0: that of the
---   residual stream
---@field rotary_depends_on_length boolean whether the rotary embedding depends on the document's
---   length, in addition to the positions
---@field attention_layers integer layers with softmax attention
---@field delta_layers integer layers with linear attention (gated delta rule)
---@field convolution_layers integer layers with a short convolution as mixer
---@field key_heads integer linear attention: number of key heads; key_heads to value_dim are 0 if
---   the model has none
---@field value_heads integer linear attention: number of value heads
---@field key_dim integer features of a key head
---@field value_dim integer features of a value head
---@field state_space_layers integer layers with a state space model
---@field state_heads integer state space model: number of heads; state_heads to state_taps are 0 if
---   the model has none
---@field state_head_dim integer state space model: features of a head
---@field state_groups integer state space model: number of groups of heads that share the B and C
---   projections
---@field states integer state space model: state size of each channel of a head
---@field state_taps integer state space model: width of the convolution before it
---@field decay_by_channel boolean whether linear attention has one decay for each key channel
---   instead of one for each head
---@field mixers moonring.MixerFacts[] the kinds of mixers that the model has: softmax attention and
---   those in its place
---@field turning_layers integer number of layers with a rotary embedding
---@field delta_taps integer width of the convolution before the delta rule
---@field convolution_taps integer width of a short convolution; 0: none
---@field sliding_layers integer layers with sliding-window attention
---@field window integer number of tokens that such a layer attends to, including the query's own;
---   0: there is no such layer
---@field softcap number bound c of attention scores, c tanh(x / c); 0: none
---@field logit_softcap number bound c of logits, c tanh(x / c); 0: none
---@field tied boolean whether the output head uses the embedding's weight
---@field dtypes string[] dtypes of the weights in the files
---@field bytes number bytes of the weights in the files

--- The model's sizes and architecture switches.
---@return moonring.CheckpointFacts
function Checkpoint:facts() end

---@class moonring.CheckpointPart
---@field name string one of "embedding", "attention", "linear attention", "convolution", "state
---   space", "mlp", "experts", "experts' maps", "router", "shared expert", "norms" or "head"
---@field parameters integer
---@field active integer how many of `parameters` one token uses

--- Number of parameters by kind of module, in the order of a forward pass. A head that uses the
--- embedding's weight is counted as embedding.
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

--- The linear layers that can get an adapter: all except the output head.
---@return moonring.LinearMap[]
function Checkpoint:linear_maps() end

---@class moonring.PackedSizes
---@field numbers integer number of elements of the quantized matrices
---@field bytes integer bytes of these matrices after quantization
---@field layer_numbers integer number of such elements in the layer that has the most
---@field layer_bytes integer bytes of that layer's quantized matrices

--- Computes the size of the matrices that `model.load` would quantize if its option `pack` were
--- `code`.
---@param code string
---@return moonring.PackedSizes
function Checkpoint:packed_sizes(code) end

---@class moonring.GgufOptions
---@field type "f32" | "f16" | "bf16" | "q8_0" type of the weights; norms and biases are always F32
---@field name? string general.name of the file; default none

--- Checks, before weights are loaded, whether the model can be written as a .gguf file. Errors:
--- UNIMPLEMENTED for an architecture, a configuration or a tokenizer that GGUF cannot represent.
---@param path string path of the file, named in messages
---@param options moonring.GgufOptions
---@return string[] notes one line for each part of the model that the file will not contain
function Checkpoint:check_gguf(path, options) end

--- Names of weights in the files that the model does not use.
---@return string[]
function Checkpoint:extra_weights() end

--- Names of the weights of a multimodal model that do not belong to its text model. They are not
--- trained, and are saved unchanged.
---@return string[]
function Checkpoint:carried_weights() end

--- The ids of the tokens that end an answer, according to config.json: none, one or several.
---@return integer[]
function Checkpoint:eos_token_ids() end

--- The rotary embedding in words: "default", or "yarn, factor 4 over 32768 positions, cosines times
--- 1.1386".
---@return string
function Checkpoint:rope() end

--- The kind of rotary embedding.
---@return "default" | "linear" | "dynamic" | "yarn" | "llama3" | "longrope"
function Checkpoint:rope_kind() end

--- Scales the rotary embedding for texts of `length` tokens, by the factor ceil(length / context
--- length of the model). Applies to models that are loaded from this checkpoint later, and to what
--- they save. Does nothing if `length` is within the context length, or if the model has no rotary
--- embedding that can be scaled. Errors: INVALID_ARGUMENT for another kind.
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

--- V: number of rows of the embedding.
---@return integer
function Checkpoint:vocab_size() end

--- Makes room for this many tokens in models that are loaded from this checkpoint later, and in
--- what they save. If the embedding has fewer rows, the embedding, and the head if it has its own
--- weight, are extended to a multiple of 64 rows. A new row is the mean of the old rows plus noise.
---@param tokens integer
---@param seed integer seed of the noise
function Checkpoint:grow_vocabulary(tokens, seed) end

--- The names of the modules with one row for each token: the embedding and the head.
---@return string[]
function Checkpoint:vocabulary_modules() end

--- Sets files that models loaded from this checkpoint later save next to their weights. They
--- replace the checkpoint's files of the same names.
---@param files table<string, string> contents by file name
function Checkpoint:replace_companions(files) end

--- Sets the id of the eos token for models that are loaded from this checkpoint later: they save it
--- as eos in config.json, and in generation_config.json before the ids that are already there.
---@param eos integer
function Checkpoint:end_with(eos) end

function Checkpoint:close() end

--- A decoder: embedding, blocks and the final norm. The output head is a separate object
--- (Model:head), which objectives apply.
---@class moonring.Model
local Model = {}

--- Options for LoRA dropout and NEFTune noise. Both are active only if seed, step and identity are
--- all given. The noise depends only on seed, step, the token's identity and the module.
---@class moonring.NoiseOptions
---@field seed? integer
---@field step? integer
---@field identity? moonring.Tensor int64 [T_local], a number for each token that selects its noise;
---   divided over ranks in the same way as the ids
---@field neftune_alpha? number scale of NEFTune noise on the embeddings, which is uniform in
---   +-neftune_alpha / sqrt(L D), where L is the document's length; 0 or absent: none
---@field lengths? moonring.Tensor int64 [T_local], for each row the number of tokens L of its
---   document; required with neftune_alpha

---@class moonring.ForwardOptions: moonring.NoiseOptions
---@field router_groups? moonring.Tensor int64 [T_local]: the number of the group, from 0, in which
---   each token's expert routing is counted; if absent, nothing is counted
---@field router_group_count? integer number of groups; required with router_groups
---@field states? integer[] layers after which the hidden states are returned: 0 is after the
---   embedding, k is after the k-th block (model.layers.<k-1>), before the final norm; default none
---@field upto? integer layer after which the forward stops: later blocks and the final norm are not
---   run; default: runs all
---@field around? fun(layer: integer, hidden_TD: moonring.Tensor): moonring.Tensor? Lua hook, called
---   with the hidden states after each layer. It returns their replacement, of the same shape,
---   dtype and device, or nothing to keep them. Alternatively a table of functions of hidden_TD, by
---   layer. The hook runs only in the forward; the backward differentiates the operators that it
---   uses. If ranks share a sequence, each rank passes its own rows, possibly none, so the hook
---   must be a function of single rows, the same on each rank. Tensors that it creates are closed
---   at its end, as by `moonring.scope`
---@field inside? table<integer, moonring.InsideBlock> functions inside blocks, by block from 1
---@field weights? table<string, moonring.Tensor> by Hugging Face name: tensors to use instead of
---   the model's weights, as part of autograd's graph, for example parameter:use(). The whole
---   forward is then composed of PyTorch's operators and can be differentiated any number of times;
---   it is slower and keeps all intermediate values. Weights that are not in the table are
---   constants. Experts, OFT and mixers other than softmax attention cannot be composed: a second
---   derivative through them is an error

--- Functions inside the attention of one block, at least one of qkv, bias and blocks. They run in
--- the forward and again in the backward, on the calling thread, so they must be pure: results
--- depend on the arguments only. Of the tensors from outside, they may differentiate only those of
--- `given`. Tensors that they create are closed when they return.
---@class moonring.InsideBlock
--- `qkv(q, k, v, given)` returns replacements of queries, keys and values after the rotary
--- embedding: q [T_local, H, D], k and v [T_local, Hk, D], of this rank's tokens, possibly none.
---@field qkv? function
--- `rows` computes tensors [T_local, ...] by name from x, the residual stream before the block,
--- [T_local, D]. They are gathered over the ranks like the keys: tile.rows.
---@field rows? fun(x: moonring.Tensor, given: table): table<string, moonring.Tensor>
--- `bias` returns what is added to the scores of a tile (after scale and softcap), a tensor that
--- broadcasts to [H, queries, keys].
---@field bias? fun(tile: moonring.HookTile): moonring.Tensor
--- `blocks` chooses which blocks of keys each query attends to: bool [queries or 1, H or Hk or 1,
--- blocks], where block b has the keys b * block_size to (b + 1) * block_size - 1. The causal rule
--- and the mask apply besides. Each query needs a key, so its own block is chosen at least. Runs
--- without a gradient.
---@field blocks? fun(tile: moonring.HookTile): moonring.Tensor
---@field block_size? integer keys of a block; required with `blocks`
--- `given` has tensors that the functions use besides, such as weights (parameter:use()), or
--- returns them, in the forward. They receive gradients.
---@field given? table<string, moonring.Tensor> | fun(): table<string, moonring.Tensor>

--- Some consecutive queries of one document on this rank, and the document's keys that any of them
--- may attend to, whichever rank has them. Tensors are in fp32 (fp64 for fp64).
---@class moonring.HookTile
---@field block integer number of the block, from 1
---@field document integer number of the document in the stream, from 1
---@field q moonring.Tensor [queries, H, D]; the first query is at a multiple of 64 tokens of its
---   document
---@field k moonring.Tensor [keys, Hk, D]: the keys at places 0, 1, .. of the document, up to the
---   last one that a query of the tile may attend to. If documents share a prefix, the parent's
---   come first
---@field v moonring.Tensor [keys, Hk, D]
---@field places moonring.Tensor int64 [queries]: the place of each query among the keys
---@field rows table<string, moonring.Tensor> [keys, ...]: what `rows` returned for the keys
---@field given table<string, moonring.Tensor>

--- Computes the hidden states after the final norm. Differentiable: backward adds to the gradients
--- of the parameters. The residual stream, norms and rotary embedding are fp32 by default (fp64 if
--- precision is fp64). Collective over the sp group, because attention communicates.
---@param ids_T moonring.Tensor int64 [T_local], as Attention:cut returns them
---@param positions_T moonring.Tensor int64 [T_local]
---@param plan moonring.AttentionPlan
---@param options? moonring.ForwardOptions
---@return moonring.Tensor hidden_TD [T_local, D]
---@return table<integer, moonring.Tensor>? states_TD the hidden states that the option `states`
---   requests, by layer, after `around`: [T_local, D], differentiable. They must not be written to;
---   nil without `states`
---@return moonring.Tensor? probability_GE [groups, experts], the sum of the routers' probabilities
---   over this rank's tokens and all layers with a router; differentiable. This and the next result
---   are nil if the model has no experts or router_groups is absent
---@return moonring.Tensor? chosen_GE int64 [groups, experts]: how many times each expert was chosen
function Model:forward(ids_T, positions_T, plan, options) end

--- Applies the final norm to hidden states of a layer, as input for a head. Differentiable.
---@param hidden_TD moonring.Tensor [T, D]
---@return moonring.Tensor [T, D]
function Model:norm(hidden_TD) end

---@class moonring.FirstNonFiniteOptions: moonring.NoiseOptions
---@field upto? integer as in Model:forward
---@field around? fun(layer: integer, hidden_TD: moonring.Tensor): moonring.Tensor? as in
---   Model:forward; its results are checked too
---@field inside? table<integer, moonring.InsideBlock> as in Model:forward

--- Runs a forward without gradients, and finds the first module after which this rank's hidden
--- states contain a NaN or an infinity. Collective over the sp group.
---@param ids_T moonring.Tensor int64 [T_local]
---@param positions_T moonring.Tensor int64 [T_local]
---@param plan moonring.AttentionPlan
---@param options? moonring.FirstNonFiniteOptions
---@return integer index of the module, from 1; 0: all values are finite
---@return string module the module's Hugging Face name; "" if all values are finite
function Model:first_nonfinite(ids_T, positions_T, plan, options) end

--- The output head, which maps hidden states to logits. With the noise of a training forward (seed,
--- step, identity as in Model:forward), LoRA on the head applies its dropout to these tokens.
---@param noise? moonring.NoiseOptions
---@return moonring.Head
function Model:head(noise) end

--- Number of experts in a layer (0 if the model has none), and number of experts that each token is
--- routed to.
---@return integer count
---@return integer chosen
function Model:experts() end

--- All weights of the model; for a model with an adapter only the adapter's, under PEFT's names.
---@return moonring.Parameters
function Model:parameters() end

--- The model without its adapter; nil if this model has no adapter.
---@return moonring.Model?
function Model:base() end

--- Whether the adapter was created by PiSSA; such an adapter also stores the initial values of A
--- and B.
---@return boolean
function Model:has_first_values() end

--- Descriptions of weights that were read from an adapter's folder but are not trained: "low-rank
--- weights of embed_tokens", "2 tokens' rows of embed_tokens", ...
---@return string[]
function Model:fixed_parts() end

---@class moonring.ValueHeadOptions
---@field seed? integer seed of the initial values; default 0

--- Creates a reward model's value head. The head is read from value_head.safetensors in the
--- adapter's folder (without an adapter, the model's folder) if the file exists; else it is newly
--- initialized.
---@param options? moonring.ValueHeadOptions
---@return moonring.ValueHead
function Model:value_head(options) end

--- A digest of 40 hexadecimal digits over names, shapes, dtypes and bytes of all weights (and an
--- adapter's scale).
---@return string
function Model:digest() end

--- The dtype of the model's matrix products, for the option `dtype` of `objectives.log_prob`.
---@return "fp32" | "bf16" | "fp16" | "fp64"
function Model:matmul_dtype() end

--- The library that computes the model's fp32 matrix products on the CPU, including those of the
--- head.
---@return string
function Model:products() end

--- The option `tile_bytes` with which the model was loaded; 0: all rows at once.
---@return integer
function Model:tile_bytes() end

--- The option `logit_rows` with which the model was loaded: the least number of rows of logits to
--- compute at a time; 0: the device's default.
---@return integer
function Model:logit_rows() end

--- Four sizes of attention: number of query heads, number of kv heads, features of a query or key
--- head, features of a value head.
---@return integer heads
---@return integer kv_heads
---@return integer head_dim
---@return integer value_dim
function Model:heads() end

--- Number of layers with attention over the whole document (no sliding window).
---@return integer
function Model:whole_attention_layers() end

---@class moonring.SaveOptions
---@field dtype? "fp32" | "bf16" | "fp16" | "fp64" dtype of the saved weights; default: as they are
---   stored in memory
---@field shard_bytes? integer largest size of a safetensors file; default 5e9
---@field work? moonring.WorkCount progress counter, to which each written weight is added; not for
---   an adapter
---@field write? boolean false: this rank does not write, it only takes part in gathering the
---   weights that are sharded over ranks; default true
---@field flush? boolean false: the files are not flushed to disk, because the caller does that;
---   default true
---@field converted? boolean for a PiSSA adapter: whether to save an equivalent LoRA adapter of
---   twice the rank, which fits the original base; default false

--- Writes a Hugging Face folder that Transformers can open: config.json, weights, tokenizer and
--- other small files. A model with an adapter is written as a folder that PEFT can open
--- (adapter_config.json, adapter_model.safetensors, tokenizer); the only options are then `write`,
--- `flush` and `converted`. The folder is written completely or not at all. One rank writes; if
--- weights are sharded over ranks, every rank must call this.
---@param folder string created if it does not exist
---@param options? moonring.SaveOptions
function Model:save(folder, options) end

--- Writes one .gguf file with the weights, the configuration and the tokenizer. The file is written
--- completely or not at all. Errors: as check_gguf; INVALID_ARGUMENT for a value that is not finite
--- or too large for the type, for a model with an adapter, and for weights that are sharded over
--- ranks.
---@param path string the file's path; its folder is created if it does not exist
---@param options table as in check_gguf, and `flush` as in `save`
function Model:save_gguf(path, options) end

--- Writes the gradients of all trained weights, under the weights' names, as one safetensors file.
--- A weight without a gradient gets zeros. If weights are sharded over ranks, every rank must call
--- this.
---@param path string
---@param options? table { write }
function Model:save_gradients(path, options) end

--- An answer that is being generated, as hooks receive it: the same table in all calls, in which a
--- hook may keep fields of its own.
---@class moonring.OpenAnswer
---@field prompt integer index of its prompt in the list of prompts, from 1
---@field answer integer its number among the answers to the prompt, from 1
---@field key integer the prompt's key
---@field prompt_ids integer[]
---@field ids integer[] the tokens so far, sampled and given
---@field turn integer number of the current turn, from 1
---@field first integer index in `ids`, from 1, of the current turn's first token

---@class moonring.GenerateOptions
---@field max_new_tokens? integer default 128
---@field temperature? number 0 or absent: greedy decoding
---@field top_k? integer samples only from this many most likely tokens; 0 or absent: from all
---@field top_p? number samples from the smallest set of tokens whose probabilities sum to this;
---   default 1
---@field repetition_penalty? number the logits of tokens that are already in the text are divided
---   by this value if positive and multiplied by it if negative; default 1
---@field stop_ids? integer[] ids that end the answer; default none
---@field seed? integer seed of the sampling; default 0
---@field around? fun(layer: integer, hidden_TD: moonring.Tensor): moonring.Tensor? hook as in
---   Model:forward, called for all rows that are decoded: at most 512 rows of the prompt at a time,
---   then each new token
---@field logits? fun(logits: moonring.Tensor, answers: moonring.OpenAnswer[]): moonring.Tensor?
---   hook as in Model:rollout, with one row

--- Generates an answer with a KV cache, on this rank only. Sampling depends only on the seed, the
--- index of the new token and the logits, so the same call returns the same answer. The logits are
--- processed in the order of Transformers: the hook `logits`, penalty, temperature, top_k, top_p,
--- sampling.
---@param prompt integer[] token ids, at least one
---@param options? moonring.GenerateOptions
---@param on_token? fun(id: integer): boolean? called with each new id except a stop id; if it
---   returns false, the answer ends
---@return integer[] ids the new ids, including the stop id that ended the answer
function Model:generate(prompt, options, on_token) end

---@class moonring.RolloutPrompt
---@field ids integer[] token ids, at least one
---@field key? integer number that, with the seed, determines the sampling of the answers to this
---   prompt, such as the example's index; default 0
--- The other fields are for a prompt that is answered in another way than the options of the call
--- say. Prompts with different settings are decoded together.
---@field answers? integer
---@field max_new_tokens? integer
---@field temperature? number
---@field top_k? integer
---@field top_p? number
---@field min_p? number
---@field repetition_penalty? number
---@field stop_ids? integer[] replaces the call's list
---@field stop_texts? string[] replaces the call's list; needs the call's `tokenizer`
---@field seed? integer
---@field top? integer number of most likely ids of which each new token has the log-probs; default
---   0

---@class moonring.RolloutOptions
---@field answers? integer number of answers for each prompt; default 1
---@field max_new_tokens? integer default 128
---@field temperature? number 0 or absent: greedy decoding
---@field top_k? integer samples only from this many most likely tokens; 0 or absent: from all
---@field top_p? number samples from the smallest set of tokens whose probabilities sum to this;
---   default 1
---@field min_p? number least probability of a token, as a fraction of the largest; default 0
---@field repetition_penalty? number the logits of tokens that are already in the text are divided
---   by this value if positive and multiplied by it if negative; default 1
---@field stop_ids? integer[] ids that end an answer; default none
---@field seed? integer seed of the sampling; default 0
---@field sequences? integer number of answers that are decoded at the same time; default 32
---@field keep_casts? boolean whether weights that must be converted to another dtype are converted
---   once, in the first forward, and kept; false: each forward converts them; default true
---@field lockstep? moonring.Mesh mesh of ranks that share weights (zero_stage 3, expert
---   parallelism): each rank calls rollout with its own prompts, and all ranks run as many forwards
---   as the rank that needs the most. Absent: this rank runs independently
---@field attention? moonring.Attention the run's attention, for sequence parallelism: the ranks of
---   its sp group call rollout with the same prompts and decode every sequence together. The
---   attention strategy processes the prompts, and each rank keeps the keys and values of its
---   tokens. Absent, or sp = 1: this rank decodes its sequences alone
---@field around? fun(layer: integer, hidden_TD: moonring.Tensor): moonring.Tensor? hook as in
---   Model:forward, called for all rows that are decoded: at most 512 rows of prompts at a time,
---   and the rows of answers
--- `logits` is called before each choice of tokens with the logits [rows, vocabulary] (fp32, or
--- fp64 for an fp64 model, on the CPU) and the answer of each row. It changes them in place or
--- returns others of the same shape and dtype; -inf bans an id. It must treat each row
--- independently of the others. With `attention` the first rank of the sp group calls it. Keys and
--- values stay cached.
---@field logits? fun(logits: moonring.Tensor, answers: moonring.OpenAnswer[]): moonring.Tensor?
--- `continue` is called when an answer ends with a stop id or a stop text, also at max_new_tokens.
--- It returns the token ids that follow, such as a tool's result, and the answer continues after
--- them; nothing: the answer is finished. They count towards max_new_tokens; if they leave no room
--- for another token, the answer ends without them and is not `stopped`. With `attention` the first
--- rank of the sp group calls it.
---@field continue? fun(answer: moonring.OpenAnswer): integer[]?
---@field max_turns? integer `continue` is not called after so many turns; default 0: no limit
--- `arrivals` is called before each forward, and once no work is left: it returns further prompts,
--- which are decoded beside the running ones, or nothing. Their numbers follow those of the earlier
--- prompts. The call ends when no work is left and no prompt arrives. With `attention` every rank
--- passes the three functions below, and the first rank of the sp group calls them; they must call
--- no collective.
---@field arrivals? fun(): moonring.RolloutPrompt[]?
--- `on_token` is called with each sampled token as it comes: (prompt: integer, answer: integer,
--- id: integer, log_prob: number, top: moonring.TopTokens?), the numbers of its prompt and of its
--- answer from 1. If it returns false, the answer ends with this token, as when a client has gone;
--- the other answers are not changed by it.
---@field on_token? function
--- `on_answer` is called when an answer has ended.
---@field on_answer? fun(prompt: integer, answer: integer, result: moonring.RolloutAnswer)
---@field stop_texts? string[] texts that end a turn, with the token that completes them; they need
---   `tokenizer`
---@field tokenizer? moonring.Tokenizer

--- The most likely ids at a token's place, likeliest first, with log-probs as in
--- RolloutAnswer.log_probs: an id that is also the chosen one has the same number there.
---@class moonring.TopTokens
---@field ids integer[]
---@field log_probs number[]

---@class moonring.RolloutAnswer
---@field ids integer[] the new ids, including the stop id that ended the answer
---@field stopped boolean whether a stop id or a stop text ended the answer; else it ended at
---   max_new_tokens or at the model's context length
---@field log_probs number[] log-probability of each id under softmax(logits / temperature), before
---   the hook `logits`, penalty, top_k, top_p and min_p are applied; for temperature 0 under
---   softmax(logits); 0 for an id that `continue` gave
---@field mask? integer[] with `continue`: for each id 1 if it was sampled, 0 if it was given
---@field turns? integer with `continue`
---@field cancelled? boolean true if `on_token` ended the answer
---@field top? moonring.TopTokens[] of each id, if the prompt asked for them; without ids for an id
---   that `continue` gave

--- Generates answers to many prompts at once, on this rank. A prompt is computed once for all its
--- answers. When an answer ends, the next one takes its place at once (continuous batching).
--- Sampling depends only on the seed, the prompt's key, the index of the answer, the index of the
--- new token and the logits, so an answer does not depend on which others run at the same time. The
--- logits are processed in the order of Transformers: the hook `logits`, penalty, temperature,
--- top_k, top_p, min_p, sampling.
---@param prompts moonring.RolloutPrompt[]
---@param options? moonring.RolloutOptions
---@return moonring.RolloutAnswer[][] answers by prompt, then by answer
function Model:rollout(prompts, options) end

---@class moonring.FirstTokensOptions
---@field stop_texts? string[] as in Model:rollout
---@field tokenizer? moonring.Tokenizer

--- Chooses the first token of each answer from given logits, such as those of the forward that
--- scored the prompt: the tokens that `rollout` would choose from these logits.
---@param logits moonring.Tensor [prompts, vocabulary], the logits after each prompt
---@param prompts moonring.RolloutPrompt[]
---@param options? moonring.FirstTokensOptions
---@return moonring.RolloutAnswer[][] answers by prompt, then by answer; each has one token
function Model:first_tokens(logits, prompts, options) end

function Model:close() end

--- The output head: logits = cap(scale weight . hidden), where cap(x) = softcap tanh(x / softcap),
--- or x if softcap is 0. Objectives apply it.
---@class moonring.Head
local Head = {}

--- The weight of the head: lm_head.weight, or the embedding's weight if the model shares it: [V,
--- D]; without LoRA (low_rank).
---@return moonring.Parameter
function Head:weight() end

--- The factor `scale` of the logits; 1 in most models.
---@return number
function Head:scale() end

--- The bound `softcap` of the logits; 0: none.
---@return number
function Head:softcap() end

--- LoRA on the head: A [r, D], B [V, r] and the factor m of W + m B A, which objectives, rollouts
--- and the saved adapter use; nil: none.
---@return moonring.Parameter? a
---@return moonring.Parameter? b
---@return number? factor
function Head:low_rank() end

function Head:close() end

--- The head of a reward model: one score for each token, hidden . weight + bias. Objectives apply
--- it.
---@class moonring.ValueHead
local ValueHead = {}

--- The weight, v_head.summary.weight: [1, D].
---@return moonring.Parameter
function ValueHead:weight() end

--- The bias, v_head.summary.bias: [1].
---@return moonring.Parameter
function ValueHead:bias() end

--- Weight and bias.
---@return moonring.Parameters
function ValueHead:parameters() end

--- The dropout rate on the head's input during training: summary_dropout_prob of config.json, else
--- 0.1.
---@return number
function ValueHead:dropout() end

--- Whether the value head was read from a file; else it is newly initialized.
---@return boolean
function ValueHead:found() end

--- Writes value_head.safetensors. Which ranks must call it, and the options: as in Model:save.
---@param folder string created if it does not exist
---@param options? table { write, flush }
function ValueHead:save(folder, options) end

function ValueHead:close() end

return model
