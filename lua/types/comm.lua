---@meta moonring.native.comm

--- Communication between ranks: the mesh of ranks, packed sequences and their layout over the
--- ranks, named parameters.
---@class moonring.comm
local comm = {}

---@class moonring.MeshOptions
---@field sp? integer number of ranks that share one sequence; must divide the number of ranks;
---   default 1
---@field deadline? number seconds that a collective, or the start of all ranks, may take at most;
---   default 1800
---@field device? "cpu" | "cuda" device of the computation: "cpu" uses Gloo only, "cuda" also NCCL;
---   default "cpu"
---@field alone? boolean true: this rank gets a mesh of only itself, without connections, and the
---   call is not collective; default false

--- Connects the ranks, using the environment of torchrun (RANK, WORLD_SIZE, MASTER_ADDR,
--- MASTER_PORT) or Slurm. If neither is set, creates a mesh of one rank. The connections are closed
--- when the script has ended. Collective over all ranks, once in a script; at the interactive
--- prompt it may be called repeatedly. If the environment variable MOONRING_TOKEN has the same
--- value on each rank, no other program can join. With MOONRING_EXCHANGE=host several ranks can
--- share a GPU; their data then goes through host memory, which is slow. Errors: INVALID_ARGUMENT
--- if sp does not divide the number of ranks; DEADLINE_EXCEEDED, with the ranks that did not start
--- in time; UNAVAILABLE if the port is taken; PERMISSION_DENIED if a rank has another token, or if
--- another program connected instead of a rank.
---@param options? moonring.MeshOptions
---@return moonring.Mesh
function comm.mesh(options) end

---@class moonring.SequenceOptions
---@field documents integer[][] the token ids of each document, at least one id in each
---@field labels? integer[][] labels of each document, not shifted: the label of a token is usually
---   its own id, or -100 if the model is not trained to predict the token; default: the ids
---@field positions? integer[][] positions of each document's tokens, for the rotary embedding;
---   default: from 0 in each document
---@field parents? table<integer, moonring.ParentPrefix> documents that share a prefix, by document
---   number from 1: such a document continues after the first `length` tokens of its parent
---   document, and attends to these as if they preceded its own tokens. A parent must have no
---   targets

--- Creates a packed stream of documents: one after another, without batch dimension or padding.
--- Targets are the labels shifted by one token within each document. Errors: INVALID_ARGUMENT if
--- the number of labels or positions differs from the number of ids, and if a parent does not
--- exist, is shorter than the prefix, has targets, or is its own ancestor.
---@param options moonring.SequenceOptions
---@return moonring.Sequence
function comm.sequence(options) end

--- All ranks as a grid with two axes, dp (data parallel) x sp (sequence parallel): rank = dp_rank *
--- sp_size + sp_rank. The ranks of an sp group share one stream of documents. The ranks of a dp
--- group process different documents.
---
--- All ranks of a group must make the same collective calls in the same order. Errors of each
--- collective: ABORTED, with the call and the script's line of each rank, if the ranks of the group
--- make different calls, or pass tensors of different dtypes or shapes; no data is exchanged then,
--- and the mesh can still be used. UNAVAILABLE if ranks wait for one another in calls of different
--- groups, or for a rank whose script has ended or failed. DEADLINE_EXCEEDED if a rank does not
--- come within the mesh's deadline.
---@class moonring.Mesh
local Mesh = {}

--- Number of ranks that share one sequence.
---@return integer
function Mesh:sp_size() end

--- This rank's index in its sp group, from 0.
---@return integer
function Mesh:sp_rank() end

--- Number of sp groups, which process different data: ranks / sp_size.
---@return integer
function Mesh:dp_size() end

--- This rank's index in its dp group, from 0.
---@return integer
function Mesh:dp_rank() end

--- The number of this rank among all ranks, from 0.
---@return integer
function Mesh:rank() end

--- Number of all ranks.
---@return integer
function Mesh:size() end

--- Sum of a number over all ranks, in fp64. Collective over all ranks.
---@param number number
---@return number
function Mesh:sum(number) end

--- Maximum of a number over all ranks. Collective over all ranks.
---@param number number
---@return number
function Mesh:max(number) end

--- Gathers a number from every rank, in rank order. Collective over all ranks.
---@param number number
---@return number[]
function Mesh:gather_numbers(number) end

--- Whether all ranks of this rank's sp group passed the same integer. Collective over the sp group.
---@param number integer
---@return boolean
function Mesh:same_sp(number) end

--- Gathers a text from each rank of this rank's sp group, in rank order. Collective over the sp
--- group.
---@param text string
---@return string[]
function Mesh:gather_sp(text) end

--- Seconds spent so far in collectives and transfers, including waiting for other ranks.
---@return number
function Mesh:waited() end

--- Exact sum of an integer over this rank's dp group; for example of a count, to which each rank
--- contributes the count of its own examples. Collective over the dp group.
---@param count integer | moonring.Tensor an integer, or a tensor of the same shape on each rank;
---   the result for a tensor is the elementwise sum, a new tensor outside the autograd graph
---@return integer | moonring.Tensor
function Mesh:sum_dp(count) end

--- Sum of a tensor over this rank's sp group. The tensor must have the same shape on each rank; the
--- result is a new tensor outside the autograd graph. Collective over the sp group.
---@param tensor moonring.Tensor fp32, fp64, bf16 or int64
---@return moonring.Tensor
function Mesh:sum_sp(tensor) end

--- Gathers a text from every rank, in rank order. Collective over all ranks.
---@param text string any bytes, of any length
---@return string[]
function Mesh:gather(text) end

--- Waits until all ranks have called this function. Collective over all ranks.
function Mesh:barrier() end

--- The number of communication steps and bytes that this rank has sent so far, to its sp group and
--- to all ranks.
---@return integer steps of communication
---@return integer bytes sent
function Mesh:traffic() end

--- Closes this handle. The connections stay open until the script has ended.
function Mesh:close() end

--- How the tokens of one micro-batch are divided over the ranks of an sp group. It does not change,
--- and depends only on the documents' lengths, the number of ranks and the strategy, so every rank
--- computes the same layout without communication.
---@class moonring.Layout
local Layout = {}

--- Number of ranks in the sp group.
---@return integer
function Layout:ranks() end

--- T: number of tokens in the whole stream.
---@return integer
function Layout:tokens() end

--- T_local: the number of tokens on this rank; may be 0.
---@param rank integer from 0
---@return integer
function Layout:local_tokens(rank) end

--- Selects the rank's rows of a per-token tensor: [T, ...] -> [T_local, ...]. Differentiable.
---@param stream moonring.Tensor
---@param rank integer from 0
---@return moonring.Tensor
function Layout:cut(stream, rank) end

--- The list element rank + 1 contains, for each local row of that rank, the row's number in the
--- whole stream: int64 [T_local].
---@return moonring.Tensor[]
function Layout:indices() end

--- The ranks of an sp group as a grid (comm/layout.h): ranks along the context axis divide the
--- tokens of the stream, ranks along the head axis divide the attention heads.
---@class moonring.LayoutGrid
---@field contexts integer number of ranks along the context axis
---@field heads integer number of ranks along the head axis
---@field placement "head_first" | "context_first" the axis along which rank numbers are consecutive
---@field ownership string how tokens are divided: "contiguous", "zigzag" or "whole documents"

--- Returns the ranks of this layout as a grid.
---@return moonring.LayoutGrid
function Layout:grid() end

--- The rows of one rank on the context axis, as spans of consecutive tokens. The list contains for
--- each span three numbers: the document (from 1), the first token, and one past the last token.
---@param place integer index on the context axis, from 0
---@return integer[]
function Layout:context_spans(place) end

function Layout:close() end

--- A packed stream of documents in host memory, before it is divided over ranks. Lengths (which
--- decide which tokens attend to each other), positions (only for the rotary embedding) and targets
--- are stored separately; none of them is derived from another.
---@class moonring.Sequence
local Sequence = {}

--- Token ids: int64 [T].
---@return moonring.Tensor
function Sequence:ids() end

--- int64 [T]: the position of each token in its document, from 0.
---@return moonring.Tensor
function Sequence:positions() end

--- int64 [T]: the id to predict after each token; -100 if there is none (at each document's end,
--- and in prompts).
---@return moonring.Tensor
function Sequence:targets() end

--- int64 [T]: a number for each token that selects its random noise, so that the noise does not
--- depend on where the token is packed; nil if no such numbers were given.
---@return moonring.Tensor?
function Sequence:identity() end

--- Number of tokens of each document; the sum is T.
---@return integer[]
function Sequence:lengths() end

--- For documents that share a prefix: the parent of each, by document number from 1; nil if no
--- prefix is shared.
---@return table<integer, moonring.ParentPrefix>?
function Sequence:parents() end

--- Indices, from 0, of the documents that are not a parent of another one: int64 [number of such
--- documents]; nil if no prefix is shared.
---@return moonring.Tensor?
function Sequence:own_documents() end

--- For each document, the number of tokens before its first target; all its tokens if it has no
--- target. These tokens (the prompt) may attend to each other in both directions, because none of
--- them sees a token that is predicted.
---@return integer[]
function Sequence:prompts() end

--- Expands a list with one number for each document to one number for each token: int64 [T].
---@param numbers integer[] one for each document
---@return moonring.Tensor
function Sequence:of_tokens(numbers) end

--- T: number of tokens.
---@return integer
function Sequence:tokens() end

--- CRC-32 checksum of lengths, ids, positions, targets and parents, each with its size, and of the
--- number of labels.
---@param before? integer checksum of the preceding sequences; if given, the result covers those too
---@param labels? moonring.Tensor int64 [T]: unshifted labels; those other than -100 are counted
---@return integer
function Sequence:checksum(before, labels) end

function Sequence:close() end

--- A named weight of a model. The stored weight is not a node of the autograd graph; backward adds
--- to a gradient that is stored in this object.
---@class moonring.Parameter
local Parameter = {}

--- The name of the weight in Hugging Face's checkpoints.
---@return string
function Parameter:name() end

--- Changes the name. Only allowed before a run uses the parameter.
---@param name string
function Parameter:rename(name) end

--- Whether this parameter is trained.
---@return boolean
function Parameter:trainable() end

--- The stored weight itself, not a copy: copy_ into it changes the model. If the weight is stored
--- elsewhere (sharded over ranks, or as the fp32 master of a bf16 weight), returns a read-only
--- copy, which all ranks gather together.
---@return moonring.Tensor
function Parameter:weight() end

--- The weight as a node of the autograd graph, for modules written in Lua. The gradient of this
--- node is added to the parameter's gradient. For a frozen parameter, or under no_grad, returns the
--- plain weight. If the weight is sharded over ranks, all ranks must call this in the same order.
---@param dtype? moonring.Dtype default: the dtype in which the weight is stored
---@return moonring.Tensor
function Parameter:use(dtype) end

--- The shape of the whole weight.
---@return integer[]
function Parameter:shape() end

--- The dtype in which the weight is stored.
---@return string
function Parameter:dtype() end

--- Sets whether this parameter is trained. Only allowed before a run uses the parameter.
---@param trainable boolean
function Parameter:set_trainable(trainable) end

--- Writes the weight wherever it is stored, including the optimizer's master weight: the next
--- forward uses the new values. If the weight is sharded over ranks, every rank calls this with the
--- same tensor. Not allowed between a forward and its backward. Errors: INVALID_ARGUMENT for
--- another shape.
---@param weight moonring.Tensor a tensor of the weight's shape, in any dtype
function Parameter:copy_(weight) end

--- The gradient that backward has accumulated since the last `clear_gradients`, in fp32 (fp64 for
--- an fp64 weight). Nil if there is none, or if gradients are summed into shards (then use
--- States:gradient).
---@return moonring.Tensor?
function Parameter:gradient() end

function Parameter:close() end

--- The parameters of a model, in the order of a forward pass. A weight that embedding and head
--- share (tied) appears once, under the embedding's name.
---@class moonring.Parameters
local Parameters = {}

--- The parameters as a list.
---@return moonring.Parameter[]
function Parameters:list() end

--- Number of parameters.
---@return integer
function Parameters:size() end

--- Returns a new list of these parameters followed by `more`.
---@param more moonring.Parameters
---@return moonring.Parameters
function Parameters:join(more) end

--- Names of the trainable parameters that have no gradient.
---@return string[]
function Parameters:without_gradient() end

--- Frees all gradients. Call it after an optimizer's step, before the next backward.
function Parameters:clear_gradients() end

--- Moves the gradients out, before their sum over ranks: this rank's gradients by name. The next
--- backward begins at 0. A parameter without a gradient is absent.
---@return table<string, moonring.Tensor>
function Parameters:take_gradients() end

--- Adds gradients that `take_gradients` returned. If a parameter has none yet, the tensor itself
--- becomes its gradient, without a copy: do not use it afterwards. Errors: NOT_FOUND for a name
--- that is not in the list; INVALID_ARGUMENT after the sum over ranks.
---@param gradients table<string, moonring.Tensor>
function Parameters:add_gradients(gradients) end

--- Total number of elements of all parameters.
---@return integer
function Parameters:numel() end

function Parameters:close() end

---@class moonring.ParameterOptions
---@field trainable? boolean whether the parameter is trained; default true

--- Creates a parameter with a copy of `values`, for modules written in Lua (`moonring.nn` uses it).
--- The parameter may be joined to a model's parameters, and is then trained, saved and sharded like
--- them. Errors: INVALID_ARGUMENT for values that are not floating-point.
---@param name string the name under which it is saved; must be unique
---@param values moonring.Tensor
---@param how? moonring.ParameterOptions
---@return moonring.Parameter
function comm.parameter(name, values, how) end

--- Names of the trainable parameters that comm.parameter made, that have a gradient and are not in
--- the list.
---@param list moonring.Parameters
---@return string[]
function comm.unlisted(list) end

--- Returns an object that contains a list of parameters.
---@param list moonring.Parameter[]
---@return moonring.Parameters
function comm.parameters(list) end

return comm
