---@meta moonring.native.model

--- Checkpoints, models, adapters, value heads and decoding.
---@class moonring.native.model
local model = {}

--- Opens a checkpoint: a Hugging Face folder, a .gguf file or a folder with one, or builtin:NAME.
--- Reads headers alone and checks that every weight is there with its shape. Errors: NOT_FOUND,
--- INVALID_ARGUMENT (a damaged file, a wrong shape), UNIMPLEMENTED (a kind of model that is not
--- supported yet).
---@param path string
---@return moonring.Checkpoint
function model.open(path) end

--- A folder with config.json whose weights are made afresh by it and a seed, as Transformers makes
--- them, whatever files of weights it has: the same on every rank. Errors: as `open`, but for
--- weights; UNIMPLEMENTED of a model whose text half alone is trained.
---@param path string
---@param seed integer
---@return moonring.Checkpoint
function model.open_fresh(path, seed) end

--- What a model is, whether its weights are there or not: a folder with config.json, or such a file
--- by its own name, is enough; else as `open`. It has facts and parts; no stored dtypes, no files
--- and nothing to load. Errors: as `open`, but for weights.
---@param path string
---@return moonring.Checkpoint
function model.open_config(path) end

--- What a tokenizer and its templates are made of: `path` and `companion`, as a Checkpoint has
--- them.
---@class moonring.TokenizerFiles
---@field path fun(): string
---@field companion fun(self: moonring.TokenizerFiles, name: string): string?

--- The files beside a model's weights and config.json, by name: tokenizer, chat template,
--- generation_config.json. Of a folder or a .gguf file.
---@param path string
---@return table<string, string>
function model.companions(path) end

--- A checksum of a file's contents: of all of them, or above 64 MiB of a sample of 1/256.
--- Errors: NOT_FOUND and the like, naming the path.
---@param path string
---@return string
function model.file_mark(path) end

--- What has changed of the files that models still read from since the last call: a sentence a
--- file, each change once.
---@return string[]
function model.take_changed_files() end

--- Whether a file of this name is one of those.
---@param name string
---@return boolean
function model.is_companion(name) end

---@class moonring.LoadOptions
--- bf16, fp16: fp32 weights, bf16 or fp16 matmuls; pure_bf16: both bf16; "fp32" where absent
---@field precision? "fp32" | "bf16" | "fp16" | "pure_bf16" | "fp64"
--- the first layers, that keep all they make whatever `recompute` says; 0 where absent
---@field whole_layers? integer
--- the layers after them, that keep attention's result; 0 where absent
---@field selective_layers? integer
--- what a tile of rows may take in a block's MLP, where the block is recomputed; 0: all rows at
--- once; 64 MiB where absent
---@field tile_bytes? integer
---@field work? moonring.WorkCount counts the weights that are read
---@field tile_rows? integer the fewest rows of one; 0, or absent: 512 on the CPU, 8192 on a GPU
---@field logit_rows? integer what logit_rows() says: for who makes logits; 0 where absent
--- of the residual stream: with matmuls in bf16 also "bf16"; fp32 where absent (fp64 for fp64)
---@field residual_dtype? "fp32" | "bf16" | "fp64"
--- what makes the CPU's fp32 products, as the key cpu_products writes it; "mkl" where absent
---@field products? string
--- where blocks' inputs wait for their backward: the host's memory, for a model on a GPU, or files
--- without a name in activation_dir, for one on the CPU
---@field activation_offload? "cpu" | "disk"
---@field activation_dir? string the folder of activation_offload: disk
--- what backward makes again: each block from its input, all of a block but its attention, or
--- nothing; "block" where absent
---@field recompute? "block" | "selective" | "none"
--- no weight learns; matrices are held in the matmul dtype; false where absent
---@field frozen? boolean
--- adapter folders (PEFT's format), merged into the weights in this order: sums in fp64, rounded to
--- the stored dtype once
---@field adapters? string[]
--- only weights of the last n blocks learn (of the first -n where negative); with any of these
--- three keys the others default to 2, {"all"}, none
---@field trainable_layers? integer
--- of those blocks: self_attn, mlp, input_layernorm, post_attention_layernorm or all
---@field trainable_modules? string[]
---@field extra_modules? string[] what learns outside the blocks: embed_tokens, norm, lm_head
--- matrices of a frozen base lie packed in a code, and each use unpacks them: nf4, fp4, int8; with
--- their scales packed too, "nf4 double" and "fp4 double"; "file": the blocks of a .gguf file
---@field pack? string
--- in which weights are read to be packed; "fp32" where absent
---@field pack_dtype? "fp32" | "bf16" | "fp16"
--- the weights get the numbers that the code gives, and do not lie packed; false where absent
---@field pack_rounds_only? boolean
--- in stage 3 each weight is sharded over ranks as it is read; every rank must load the model
---@field zero? moonring.Zero
--- where the weights lie: the GPU that `model.device` chose; "cpu" where absent
---@field device? "cpu" | "cuda"

--- Reads every weight.
---@param checkpoint moonring.Checkpoint
---@param options? moonring.LoadOptions
---@return moonring.Model
function model.load(checkpoint, options) end

---@class moonring.AdaptOptions
---@field rank? integer columns of the low-rank matrices; 8 where absent
---@field alpha? number their product is scaled by alpha / rank; 2 rank where absent
---@field dropout? number of the adapter's input, where a forward is given noise; 0 where absent
---@field target? string[] linear modules by the end of their names, or {"all"}, as where absent
--- modules trained whole, copies of the base's (embed_tokens, lm_head, norm); none where absent
---@field additional_target? string[]
---@field use_rslora? boolean scale by alpha / sqrt(rank); false where absent
---@field use_dora? boolean DoRA: rows of the sum have a learnt magnitude; false where absent
--- OFT in place of low-rank matrices: the blocks of each map's orthogonal matrix by their number or
--- by their size, the other one 0 or absent; the nearest that divides a map's inputs is taken
---@field oft_rank? integer
---@field oft_block_size? integer
---@field cayley_terms? integer of the Cayley-Neumann series, 0: exact; 5 where absent
--- PiSSA: A and B begin with the largest singular values of the map, found by so many iterations of
--- a randomised decomposition; -1: by the whole one
---@field pissa_iter? integer
---@field seed? integer of the first values; 0 where absent
--- a PEFT folder to read, to go on training it; beside it only `dropout`, in place of the folder's,
--- and `seed`, by which nothing is drawn then, may be given
---@field path? string

--- The model with an adapter over it: a new one, which at first changes nothing, or one read from a
--- folder. The base, which must be frozen, shares its weights and may be run as before. Errors:
--- NOT_FOUND and INVALID_ARGUMENT where the folder is missing, damaged or made for another base; a
--- target that is no linear module; UNIMPLEMENTED for an option of PEFT's that is not supported.
---@param base moonring.Model
---@param options? moonring.AdaptOptions
---@return moonring.Model
function model.adapt(base, options) end

--- Features of a block of OFT's orthogonal matrix over a map of so many inputs: `block_size`, or
--- what `blocks` leave, or the nearest that divides the inputs. One of the two is 0.
---@param inputs integer
---@param blocks integer
---@param block_size integer
---@return integer
function model.rotated_block(inputs, blocks, block_size) end

--- "cpu" or "cuda" for what was asked: "auto" takes a GPU where this build and this machine have
--- one. Of several GPUs a rank has the one of its LOCAL_RANK, from when its mesh is made. Errors:
--- FAILED_PRECONDITION for "cuda" where there is none.
---@param asked "auto" | "cpu" | "cuda"
---@return "cpu" | "cuda"
function model.device(asked) end

--- Where blocks' inputs wait for their backward, by the key activation_offload and the device that
--- computes: "memory" is where they were made, so cpu moves nothing on the CPU. The rule by which
--- `load` acts. Errors: INVALID_ARGUMENT for another word, and for disk on a device that is not the
--- CPU.
---@param offload? "cpu" | "disk"
---@param device "cpu" | "cuda"
---@return "memory" | "host" | "disk"
function model.activation_place(offload, device) end

---@class moonring.ProductShapes
---@field rows? integer of a forward
---@field outputs? integer of a weight that stands for the wide ones
---@field inputs? integer
---@field narrow? integer the smaller side of the narrow ones (less than 256)

--- What makes fp32 products of these sizes the fastest on this CPU, as the key cpu_products writes
--- it: measured, for some 100 ms. No two machines, nor always two calls, need agree.
---@param options? moonring.ProductShapes
---@return string
function model.fastest_products(options) end

--- What cpu_products says, as it is written. Errors: INVALID_ARGUMENT for what names no choice.
---@param text string
---@return string
function model.checked_products(text) end

--- How many GPUs this build can use on this machine.
---@return integer
function model.gpus() end

---@class moonring.GpuMemory
---@field free number bytes that nobody holds
---@field total number bytes in all

--- The memory of this rank's GPU. Errors: FAILED_PRECONDITION where this build or this machine has
--- none.
---@return moonring.GpuMemory
function model.gpu_memory() end

--- A model as it lies on disk.
---@class moonring.Checkpoint
local Checkpoint = {}

--- Where it was opened.
---@return string
function Checkpoint:path() end

--- What it is called in what is saved of it: the path where nobody gave it a name.
---@return string
function Checkpoint:name() end

--- Gives it a name.
---@param name string
function Checkpoint:set_name(name) end

--- The paths of the files that hold the weights, sorted; none of fresh weights.
---@return string[]
function Checkpoint:files() end

--- The text of config.json, with the rotary embedding as it was stretched.
---@return string
function Checkpoint:config_json() end

--- The text of a file that belongs to the model ("tokenizer.json", "tokenizer_config.json",
--- "generation_config.json", "chat_template.jinja", ...), or nil. For a GGUF they are made from its
--- metadata.
---@param name string
---@return string?
function Checkpoint:companion(name) end

---@class moonring.CheckpointFacts
---@field architecture string "LlamaForCausalLM"
---@field family string for people: "Llama 2 and 3, ..."
---@field layers integer
---@field hidden_size integer
---@field intermediate_size integer of a dense MLP
---@field heads integer of queries
---@field kv_heads integer
---@field head_dim integer
---@field attention_value_dim integer of a value head of softmax attention
---@field query_rank integer of latent attention's queries; 0: they are a map of the stream
---@field key_value_rank integer of its keys and values; 0: there is none
---@field rotary_dim integer of a head of it, the features that turn where any do
---@field vocab_size integer
---@field max_position_embeddings integer
---@field experts integer of a layer; 0: none
---@field experts_chosen integer of them, for each token
---@field expert_layers integer layers that have them
---@field expert_parameters integer of all experts of all layers
---@field experts_stacked boolean whether all experts of a layer lie in two tensors
---@field expert_intermediate_size integer
--- features inside the expert that sees every token; 0: there is none
---@field shared_expert_size integer
---@field dense_beside_experts boolean whether a layer with experts has its dense MLP too
---@field mlp_layers integer how many layers have an MLP, or experts
---@field unmixed_layers integer how many are that alone, without attention or another mixer
---@field gated_mlp boolean whether MLPs and experts have a gate
---@field expert_width integer features that the chosen experts see; 0: the stream's
--- whether the rotary embedding depends on how long a document is, not on places alone
---@field rotary_depends_on_length boolean
---@field attention_layers integer how many layers are softmax attention
---@field delta_layers integer how many are linear attention: a gated delta rule
---@field convolution_layers integer how many are a short convolution
---@field key_heads integer of linear attention, as the three below; 0: there is none
---@field value_heads integer
---@field key_dim integer of a key head
---@field value_dim integer of a value head
---@field state_space_layers integer how many are a state space
---@field state_heads integer of one, as the three below; 0: there is none
---@field state_head_dim integer
---@field state_groups integer of heads that share their states' maps
---@field states integer for each channel of a head
---@field state_taps integer of the convolution before it
---@field decay_by_channel boolean each channel of its keys has a decay of its own
---@field turning_layers integer how many layers have a rotary embedding
---@field delta_taps integer of the convolution before the rule
---@field convolution_taps integer of a short convolution; 0: there is none
---@field sliding_layers integer how many layers have a window
---@field window integer tokens that a query sees there; 0: no layer has one
---@field softcap number the bound that attention's scores approach; 0: they have none
---@field logit_softcap number the bound that logits approach; 0: they have none
---@field tied boolean the head is the embedding
---@field dtypes string[] of the weights in the files
---@field bytes number of the weights in the files

--- Its sizes and switches.
---@return moonring.CheckpointFacts
function Checkpoint:facts() end

---@class moonring.CheckpointPart
--- "embedding", "attention", "linear attention", "convolution", "state space", "mlp", "experts",
--- "router", "shared expert", "norms" or "head"
---@field name string
---@field parameters integer
---@field active integer of them, those that one token meets

--- How many parameters its parts have, in the order of a forward pass. A tied head is the
--- embedding.
---@return moonring.CheckpointPart[]
function Checkpoint:parts() end

---@class moonring.WeightShape
---@field name string the published one
---@field shape integer[]

--- All weights, from the embedding to the head.
---@return moonring.WeightShape[]
function Checkpoint:weight_shapes() end

---@class moonring.LinearMap
---@field module string "model.layers.0.self_attn.q_proj"
---@field rows integer
---@field columns integer

--- What an adapter may be put on: every linear map but the head.
---@return moonring.LinearMap[]
function Checkpoint:linear_maps() end

---@class moonring.PackedSizes
---@field numbers integer of the matrices that lie packed
---@field bytes integer in which they do
---@field layer_numbers integer of the layer that has most
---@field layer_bytes integer

--- What of a frozen base lies packed in a code, by the names that model.load has for `pack`.
---@param code string
---@return moonring.PackedSizes
function Checkpoint:packed_sizes(code) end

---@class moonring.GgufOptions
---@field type "f32" | "f16" | "bf16" | "q8_0" of the weights; norms and biases are always F32
---@field name? string general.name of the file; none where absent

--- Whether the model can be written as a .gguf file, before its weights are loaded. Errors:
--- UNIMPLEMENTED for a family, a rule of the model's or a tokenizer that has no form in GGUF.
---@param path string for messages
---@param options moonring.GgufOptions
---@return string[] notes what the file will not say, a line each
function Checkpoint:check_gguf(path, options) end

--- Weights in the files that the model does not use.
---@return string[]
function Checkpoint:extra_weights() end

--- Names of what a composite model's files hold beside the text model that is trained: saved as it
--- is.
---@return string[]
function Checkpoint:carried_weights() end

--- The ids that end an answer, by config.json: none, one or several.
---@return integer[]
function Checkpoint:eos_token_ids() end

--- What turns queries and keys, in words: "default", or "yarn, factor 4 over 32768 positions,
--- cosines times 1.1386".
---@return string
function Checkpoint:rope() end

--- The kind of rotary embedding alone.
---@return "default" | "linear" | "dynamic" | "yarn" | "llama3" | "longrope"
function Checkpoint:rope_kind() end

--- Stretches the rotary embedding of models loaded from here on, and of what they save, for texts
--- of `length` tokens: by ceil(length / context). Nothing changes where they fit, or where the
--- model takes no scaling. Errors: INVALID_ARGUMENT for another kind.
---@param kind "linear" | "dynamic" | "yarn" | "llama3"
---@param length integer
---@return string report a line: what turns now, or why nothing changed
function Checkpoint:scale_rope(kind, length) end

--- The longest sequence that the model was made for.
---@return integer
function Checkpoint:max_position_embeddings() end

--- The dtype of its weights, by config.json; "fp32" where that says none.
---@return "fp32" | "bf16" | "fp16" | "fp64"
function Checkpoint:dtype() end

--- V: rows of the embedding.
---@return integer
function Checkpoint:vocab_size() end

--- Makes room for so many tokens in models loaded from here on, and in what they save: where there
--- are fewer rows, the embedding's and an untied head's become a multiple of 64; the new ones are
--- the mean of the old ones and noise.
---@param tokens integer
---@param seed integer of the noise
function Checkpoint:grow_vocabulary(tokens, seed) end

--- The names of the modules that have a row for each token: the embedding's and the head's.
---@return string[]
function Checkpoint:vocabulary_modules() end

--- Files that models loaded from here on write beside their weights, in place of the checkpoint's
--- own of the same names.
---@param files table<string, string> name -> contents
function Checkpoint:replace_companions(files) end

--- The eos that models loaded from here on say in config.json and, before those that are there, in
--- generation_config.json.
---@param eos integer
function Checkpoint:end_with(eos) end

function Checkpoint:close() end

--- A decoder: embedding, blocks and the final norm; the head is applied by an objective.
---@class moonring.Model
local Model = {}

--- LoRA's dropout and NEFTune act only where seed, step and identity are given, all three:
--- functions of seed, step, token and module.
---@class moonring.NoiseOptions
---@field seed? integer
---@field step? integer
---@field identity? moonring.Tensor int64 [T_local], the tokens' identities, cut as the ids are
--- noise on the embeddings, uniform in +-neftune_alpha / sqrt(L D); 0, where absent: none
---@field neftune_alpha? number
--- int64 [T_local], L: the tokens of each row's document; wanted with neftune_alpha
---@field lengths? moonring.Tensor

---@class moonring.ForwardOptions: moonring.NoiseOptions
--- int64 [T_local], which group each token's routing is counted in, from 0; nothing is counted
--- where absent
---@field router_groups? moonring.Tensor
---@field router_group_count? integer how many groups there are; with router_groups
--- layers after which the stream is wanted: 0 after the embedding, k after the k-th block
--- (model.layers.<k-1>), without the final norm; none where absent
---@field states? integer[]
--- the layer after which the forward ends, without the final norm: the blocks above are not run;
--- all where absent
---@field upto? integer
--- takes the stream after each layer and returns what goes on in its place, of the same shape,
--- dtype and device, or nothing where it stays as it is; or a table of functions of hidden by
--- layer. Runs in the forward alone, and is differentiated by the operators that it uses. On ranks
--- that share a sequence it sees each its own rows, possibly none, and must be the same function of
--- a row on each of them. Its tensors are closed at its end, as at that of a `moonring.scope`
---@field around? fun(layer: integer, hidden_TD: moonring.Tensor): moonring.Tensor?

--- The stream after the final norm. Differentiable: backward adds to the parameters' gradients. The
--- residual stream, norms and rotary embedding are fp32 (fp64 for fp64). Collective over the sp
--- group by its attention.
---@param ids_T moonring.Tensor int64 [T_local], as `attention:cut` gives them
---@param positions_T moonring.Tensor int64 [T_local]
---@param plan moonring.AttentionPlan
---@param options? moonring.ForwardOptions
---@return moonring.Tensor hidden_TD [T_local, D]
---@return table<integer, moonring.Tensor>? states_TD by layer, as `states` asks for them, after
---   `around`: [T_local, D], differentiable. Not to be written to; nil without `states`
---@return moonring.Tensor? probability_GE [groups, experts], sums of the routers' probabilities
---   over this rank's tokens and all layers with a router; differentiable. nil, as the next,
---   without experts or router_groups
---@return moonring.Tensor? chosen_GE int64 [groups, experts]: how often each expert was chosen
function Model:forward(ids_T, positions_T, plan, options) end

--- The final norm of a state of the stream, differentiable: what a head takes.
---@param hidden_TD moonring.Tensor [T, D]
---@return moonring.Tensor [T, D]
function Model:norm(hidden_TD) end

---@class moonring.FirstNonFiniteOptions: moonring.NoiseOptions
---@field upto? integer as Model:forward's
--- as Model:forward's: its results are looked at
---@field around? fun(layer: integer, hidden_TD: moonring.Tensor): moonring.Tensor?

--- The first module, in the order of a forward pass, after which this rank's stream holds a NaN or
--- an infinity. Runs a forward without gradients. Collective over the sp group by its attention.
---@param ids_T moonring.Tensor int64 [T_local]
---@param positions_T moonring.Tensor int64 [T_local]
---@param plan moonring.AttentionPlan
---@param options? moonring.FirstNonFiniteOptions
---@return integer place among the modules, from 1; 0: there is none
---@return string module its published name; "" where there is none
function Model:first_nonfinite(ids_T, positions_T, plan, options) end

--- What makes logits of hidden states.
---@return moonring.Head
function Model:head() end

--- How many experts a layer has (0: the model has none), and how many of them a token goes through.
---@return integer count
---@return integer chosen
function Model:experts() end

--- All weights; of an adapted model the adapter's own alone, under PEFT's names.
---@return moonring.Parameters
function Model:parameters() end

--- The model under the adapter, as it is without it; nil where there is no adapter.
---@return moonring.Model?
function Model:base() end

--- Whether its adapter is PiSSA's, which keeps A and B as they were before training.
---@return boolean
function Model:has_first_values() end

--- What of its adapter was read and does not learn: "low-rank weights of embed_tokens", "2 tokens'
--- rows of embed_tokens", ...
---@return string[]
function Model:fixed_parts() end

---@class moonring.ValueHeadOptions
---@field seed? integer of the first values; 0 where absent

--- A reward model's head: read from value_head.safetensors in the folder of the adapter (the
--- model's where there is none), else new.
---@param options? moonring.ValueHeadOptions
---@return moonring.ValueHead
function Model:value_head(options) end

--- Forty hexadecimal digits, equal where names, shapes, dtypes and bytes of all weights are (and an
--- adapter's scale).
---@return string
function Model:digest() end

--- The dtype of its matrix products, to pass on to `objectives.log_prob`.
---@return "fp32" | "bf16" | "fp16" | "fp64"
function Model:matmul_dtype() end

--- What makes the CPU's fp32 products, its head's too, as it was loaded.
---@return string
function Model:products() end

--- What a tile of rows may take, as it was loaded; 0: all rows at once.
---@return integer
function Model:tile_bytes() end

--- The fewest rows of logits to be made at a time, as it was loaded; 0: by device.
---@return integer
function Model:logit_rows() end

--- Its query heads, its kv heads, the numbers of a head and those of a value.
---@return integer heads
---@return integer kv_heads
---@return integer head_dim
---@return integer value_dim
function Model:heads() end

--- How many of its layers have attention without a window.
---@return integer
function Model:whole_attention_layers() end

---@class moonring.SaveOptions
---@field dtype? "fp32" | "bf16" | "fp16" | "fp64" of the weights; as they are held where absent
---@field shard_bytes? integer of a safetensors file at most; 5e9 where absent
---@field work? moonring.WorkCount counts the weights that are written, of a whole model
--- false: this rank only takes part in gathering weights that are sharded over ranks, while another
--- one writes; true where absent
---@field write? boolean
--- false: who calls brings the files from the kernel's cache to the disk; true where absent
---@field flush? boolean
--- of a PiSSA adapter: the same map as a LoRA adapter of twice the rank, over the base as it is;
--- false where absent
---@field converted? boolean

--- Writes a Hugging Face folder that Transformers opens: config.json, the weights, tokenizer and
--- other companions; of an adapted model a folder that PEFT opens (adapter_config.json,
--- adapter_model.safetensors, the tokenizer), for which `write`, `flush` and `converted` are the
--- only options.
--- Whole or not at all. One rank writes; where weights are sharded over ranks every one calls it.
---@param folder string made where it is missing
---@param options? moonring.SaveOptions
function Model:save(folder, options) end

--- Writes one .gguf file: the weights, what config.json says, the tokenizer, whole or not at all.
--- Errors: as check_gguf; INVALID_ARGUMENT where a number is not finite or too large for the type,
--- where the model has an adapter of its own, or its weights are sharded over ranks.
---@param path string its folder is made where it is missing
---@param options table as check_gguf's, and `flush` as of `save`
function Model:save_gguf(path, options) end

--- Writes the gradients of what learns, under their weights' names, as one safetensors file; zeros
--- where there is none. As `save`.
---@param path string
---@param options? table { write }
function Model:save_gradients(path, options) end

---@class moonring.GenerateOptions
---@field max_new_tokens? integer 128 where absent
---@field temperature? number 0, where absent: the likeliest token
---@field top_k? integer tokens considered; 0, where absent: all
---@field top_p? number the fewest tokens whose probabilities sum to it; 1 where absent
--- logits of ids already there are divided by it (multiplied where negative); 1 where absent
---@field repetition_penalty? number
---@field stop_ids? integer[] ids that end the answer; none where absent
---@field seed? integer of the draws; 0 where absent
--- as Model:forward's, on all rows that are decoded: a prompt's, 512 at most at a time, then each
--- new token's
---@field around? fun(layer: integer, hidden_TD: moonring.Tensor): moonring.Tensor?

--- Decodes an answer on this rank alone, with a KV cache. A draw depends on (seed, number of the
--- new token, logits): the same call gives the same answer. Choices are made in the order of
--- Transformers: penalty, temperature, top_k, top_p, draw.
---@param prompt integer[] token ids, one at least
---@param options? moonring.GenerateOptions
---@param on_token? fun(id: integer): boolean? sees each new id as it is made, but for a stop id;
---   returning false ends the answer
---@return integer[] ids the new ones; the last is a stop id where one ended it
function Model:generate(prompt, options, on_token) end

---@class moonring.RolloutPrompt
---@field ids integer[] token ids, one at least
---@field key? integer by which its answers draw, as an example's number; 0 where absent

---@class moonring.RolloutOptions
---@field answers? integer to each prompt; 1 where absent
---@field max_new_tokens? integer 128 where absent
---@field temperature? number 0, where absent: the likeliest token
---@field top_k? integer tokens considered; 0, where absent: all
---@field top_p? number the fewest tokens whose probabilities sum to it; 1 where absent
---@field min_p? number least probability, as a share of the greatest; 0 where absent
--- logits of ids already there are divided by it (multiplied where negative); 1 where absent
---@field repetition_penalty? number
---@field stop_ids? integer[] ids that end an answer; none where absent
---@field seed? integer of the draws; 0 where absent
---@field sequences? integer answers that run at a time; 32 where absent
--- false: each forward casts the weights that it leases in another dtype; true, where absent: the
--- first one does
---@field keep_casts? boolean
--- ranks that hold weights together (zero_stage 3, experts over ranks): each calls with prompts of
--- its own, and all run as many forwards as the one that runs most. Absent: this rank alone
---@field lockstep? moonring.Mesh
--- a run's: the ranks of its sp group share every sequence and call with the same prompts. A prompt
--- runs through the strategy, and its keys stay with the ranks that have its tokens. Absent, or of
--- sp 1: sequences are this rank's own
---@field attention? moonring.Attention
--- as Model:forward's, on all rows that run: of prompts, 512 at most at a time, and of answers
---@field around? fun(layer: integer, hidden_TD: moonring.Tensor): moonring.Tensor?

---@class moonring.RolloutAnswer
---@field ids integer[] the new ones; the last is a stop id where one ended it
---@field stopped boolean by a stop id; else by max_new_tokens or the model's positions
--- of each id under softmax(logits / temperature) (1 for 0): before penalty, top_k, top_p and min_p
---@field log_probs number[]

--- Answers to many prompts at once, on this rank: a prompt is computed once for all of its answers,
--- and an answer that ends makes room at once. A draw depends on (seed, the prompt's key, the
--- answer's number, the number of the new token) and the logits: the same answers whatever runs
--- beside them. Choices are made in the order of Transformers: penalty, temperature, top_k, top_p,
--- min_p, draw.
---@param prompts moonring.RolloutPrompt[]
---@param options? moonring.RolloutOptions
---@return moonring.RolloutAnswer[][] answers by prompt, by answer
function Model:rollout(prompts, options) end

function Model:close() end

--- The last map: logits = cap(scale weight . hidden), cap(x) = softcap tanh(x / softcap), or x
--- where softcap is 0. Objectives apply it.
---@class moonring.Head
local Head = {}

--- lm_head.weight, or the embedding where they are tied: [V, D].
---@return moonring.Parameter
function Head:weight() end

--- What the product is multiplied by; 1 in most models.
---@return number
function Head:scale() end

--- What the logits are kept below in size; 0: nothing.
---@return number
function Head:softcap() end

function Head:close() end

--- One number a token: hidden . weight + bias. Objectives apply it.
---@class moonring.ValueHead
local ValueHead = {}

--- v_head.summary.weight [1, D].
---@return moonring.Parameter
function ValueHead:weight() end

--- v_head.summary.bias [1].
---@return moonring.Parameter
function ValueHead:bias() end

--- Both.
---@return moonring.Parameters
function ValueHead:parameters() end

--- The rate of its input's dropout while training: summary_dropout_prob of config.json, else 0.1.
---@return number
function ValueHead:dropout() end

--- Whether it was read from a file.
---@return boolean
function ValueHead:found() end

--- Writes value_head.safetensors. As Model:save.
---@param folder string made where it is missing
---@param options? table { write, flush }
function ValueHead:save(folder, options) end

function ValueHead:close() end

return model
