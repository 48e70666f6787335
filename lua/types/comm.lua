---@meta moonring.native.comm

--- Ranks and what they share: the mesh, packed sequences and their layout, named parameters.
---@class moonring.comm
local comm = {}

---@class moonring.MeshOptions
---@field sp? integer ranks that share one sequence; must divide the number of ranks; default 1
--- most seconds that a collective, or the start of a rank, may take; default 1800
---@field deadline? number
--- device of the computation: "cpu" uses Gloo only, "cuda" also NCCL; default "cpu"
---@field device? "cpu" | "cuda"
--- whether this rank gets a mesh of its own, without connections; not collective then; default
--- false
---@field alone? boolean

--- Connects the ranks, using the environment of torchrun (RANK, WORLD_SIZE, MASTER_ADDR,
--- MASTER_PORT) or Slurm; without it, creates a mesh of one rank. The connections are closed when
--- the script has ended. Collective over all ranks, once in a script; at the prompt it may be
--- called repeatedly. If MOONRING_TOKEN is set in the environment to the same value on each rank,
--- no other program can join. With MOONRING_EXCHANGE=host ranks can share a GPU; their data then
--- goes through host memory, which is slow. Errors: INVALID_ARGUMENT if sp does not divide the
--- number of ranks; DEADLINE_EXCEEDED, with the ranks that did not start in time; UNAVAILABLE if
--- the port is taken; PERMISSION_DENIED if a rank has another token, or another program connected
--- instead of a rank.
---@param options? moonring.MeshOptions
---@return moonring.Mesh
function comm.mesh(options) end

---@class moonring.SequenceOptions
---@field documents integer[][] token ids of each document, at least one in each
--- the id to predict at each token, unshifted; -100: none; default: the ids
---@field labels? integer[][]
--- for the rotary embedding; default: from 0 in each document
---@field positions? integer[][]
--- shared prefixes, by document from 1. A document continues after the first `length` tokens of its
--- parent, and attends to these as tokens before its own. A parent has no targets of its own
---@field parents? table<integer, moonring.ParentPrefix>

--- Creates a packed stream of documents: no batch dimension, no padding. Targets are the labels
--- shifted within each document. Errors: INVALID_ARGUMENT if labels or positions differ from the
--- ids in number, and if a parent does not exist, is shorter than its prefix, has targets, or is
--- its own ancestor.
---@param options moonring.SequenceOptions
---@return moonring.Sequence
function comm.sequence(options) end

--- All ranks along two axes, dp x sp: rank = dp_rank * sp_size + sp_rank. The ranks of an sp group
--- share one stream of documents; those of a dp group process different ones.
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

--- This rank's global number, from 0.
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

--- Whether all ranks of this rank's sp group pass the same integer. Collective over the sp group.
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

--- Exact sum of an integer over this rank's dp group, such as a step's count from each rank's share
--- of the examples. Collective over the dp group.
---@param count integer | moonring.Tensor for a tensor of the same shape on each rank: the
---   elementwise sum, as a new tensor outside the autograd graph
---@return integer | moonring.Tensor
function Mesh:sum_dp(count) end

--- Sum of a tensor of the same shape over this rank's sp group, as a new tensor outside the
--- autograd graph. Collective over the sp group.
---@param tensor moonring.Tensor fp32, fp64, bf16 or int64
---@return moonring.Tensor
function Mesh:sum_sp(tensor) end

--- Gathers a text from every rank, in rank order. Collective over all ranks.
---@param text string any bytes, of any length
---@return string[]
function Mesh:gather(text) end

--- Waits until all ranks have called it. Collective over all ranks.
function Mesh:barrier() end

--- What this rank has sent to its sp group and to all ranks so far.
---@return integer steps of communication
---@return integer bytes sent
function Mesh:traffic() end

--- Closes this handle. The connections stay open until the script has ended.
function Mesh:close() end

--- The partition of one micro-batch's tokens over the ranks of an sp group. Immutable; a pure
--- function of the documents' lengths, the number of ranks and the strategy, so every rank computes
--- the same layout without communication.
---@class moonring.Layout
local Layout = {}

--- Number of ranks.
---@return integer
function Layout:ranks() end

--- T: number of tokens in the whole stream.
---@return integer
function Layout:tokens() end

--- T_local of a rank: its number of tokens; may be 0.
---@param rank integer from 0
---@return integer
function Layout:local_tokens(rank) end

--- Selects the rank's rows of a per-token tensor: [T, ...] -> [T_local, ...]. Differentiable.
---@param stream moonring.Tensor
---@param rank integer from 0
---@return moonring.Tensor
function Layout:cut(stream, rank) end

--- For each rank (list index rank + 1) the stream's row numbers of its local rows: int64 [T_local].
---@return moonring.Tensor[]
function Layout:indices() end

--- The ranks as a grid (comm/layout.h): the context axis, along which the stream is cut, and the
--- head axis, over which heads are split.
---@class moonring.LayoutGrid
---@field contexts integer ranks along the context axis
---@field heads integer ranks along the head axis
---@field placement "head_first" | "context_first"
---@field ownership string how tokens are divided: "contiguous", "zigzag" or "whole documents"

--- The grid of its ranks.
---@return moonring.LayoutGrid
function Layout:grid() end

--- The rows of one context rank as spans. For each span, one after another: document (from 1),
--- first token, and one past the last token.
---@param place integer index on the context axis, from 0
---@return integer[]
function Layout:context_spans(place) end

function Layout:close() end

--- A packed stream of documents, not cut over ranks, in host memory. Lengths (which tokens attend
--- to each other), positions (only for the rotary embedding) and targets are independent: none is
--- derived from another.
---@class moonring.Sequence
local Sequence = {}

--- Token ids: int64 [T].
---@return moonring.Tensor
function Sequence:ids() end

--- int64 [T]: positions in the document, from 0.
---@return moonring.Tensor
function Sequence:positions() end

--- int64 [T]: the id to predict after each token; -100: none (at each document's end, in prompts).
---@return moonring.Tensor
function Sequence:targets() end

--- int64 [T]: a number for each token, independent of where it is packed, which keys random noise;
--- nil if none was given.
---@return moonring.Tensor?
function Sequence:identity() end

--- Number of tokens of each document; they sum to T.
---@return integer[]
function Sequence:lengths() end

--- The parents of documents with shared prefixes, by document from 1; nil if no prefix is shared.
---@return table<integer, moonring.ParentPrefix>?
function Sequence:parents() end

--- Indices of the documents that are not a parent, from 0: int64 [own documents]; nil if no prefix
--- is shared.
---@return moonring.Tensor?
function Sequence:own_documents() end

--- For each document the number of tokens before its first target, the whole document if it has
--- none. These tokens may attend to each other in both directions without seeing what they predict.
---@return integer[]
function Sequence:prompts() end

--- Expands one number for each document to one for each of its tokens: int64 [T].
---@param numbers integer[] one for each document
---@return moonring.Tensor
function Sequence:of_tokens(numbers) end

--- T: number of tokens.
---@return integer
function Sequence:tokens() end

--- CRC-32 of lengths, ids, positions, targets and parents, each with its size, and of the number of
--- labels.
---@param before? integer checksum of the preceding sequences, which is continued
---@param labels? moonring.Tensor int64 [T]: unshifted labels; those other than -100 are counted
---@return integer
function Sequence:checksum(before, labels) end

function Sequence:close() end

--- A named weight of a model. It is never a node of the autograd graph: backward adds to the
--- gradient stored here.
---@class moonring.Parameter
local Parameter = {}

--- The Hugging Face name.
---@return string
function Parameter:name() end

--- Changes the name; only before a run uses the parameter.
---@param name string
function Parameter:rename(name) end

--- Whether it is trained.
---@return boolean
function Parameter:trainable() end

--- The stored weight itself, not a copy: copy_ into it changes the model. If it is stored elsewhere
--- (sharded over ranks, or as master weights of bf16 weights), a read-only copy, gathered by all
--- ranks.
---@return moonring.Tensor
function Parameter:weight() end

--- The weight as a node of the autograd graph, for modules written in Lua. Its gradient is added to
--- the parameter's. For a frozen parameter, or under no_grad, this is the plain weight. If it is
--- sharded over ranks, all ranks must call this in the same order.
---@param dtype? moonring.Dtype default: its stored dtype
---@return moonring.Tensor
function Parameter:use(dtype) end

--- The shape of the whole weight.
---@return integer[]
function Parameter:shape() end

--- The dtype in which it is stored.
---@return string
function Parameter:dtype() end

--- Sets whether it is trained; only before it becomes part of a run's states.
---@param trainable boolean
function Parameter:set_trainable(trainable) end

--- Writes the weight wherever it is stored, including the optimizer's master weight: the next
--- forward uses the new values. If it is sharded over ranks, every rank calls this with the same
--- tensor. Not allowed between a forward and its backward. Errors: INVALID_ARGUMENT for another
--- shape.
---@param weight moonring.Tensor a tensor of the weight's shape, in any dtype
function Parameter:copy_(weight) end

--- The gradient that backward has accumulated since the last `clear_gradients`, in fp32 (fp64 for
--- an fp64 weight); nil if there is none, or if it is summed into shards (States:gradient).
---@return moonring.Tensor?
function Parameter:gradient() end

function Parameter:close() end

--- The parameters of a model, in the order of a forward pass; a tied weight appears once, under the
--- embedding's name.
---@class moonring.Parameters
local Parameters = {}

--- The parameters as a list.
---@return moonring.Parameter[]
function Parameters:list() end

--- Number of parameters.
---@return integer
function Parameters:size() end

--- A new list of these parameters followed by others.
---@param more moonring.Parameters
---@return moonring.Parameters
function Parameters:join(more) end

--- Frees all gradients; call it after an optimizer's step, before the next backward.
function Parameters:clear_gradients() end

--- Total number of elements.
---@return integer
function Parameters:numel() end

function Parameters:close() end

---@class moonring.ParameterOptions
---@field trainable? boolean whether it is trained; default true

--- Creates a parameter with a copy of `values`, such as `moonring.nn` uses. It may be joined to a
--- model's parameters, and is then trained, saved and sharded like them. Errors: INVALID_ARGUMENT
--- for values that are not floating-point.
---@param name string the name under which it is saved; must be unique
---@param values moonring.Tensor
---@param how? moonring.ParameterOptions
---@return moonring.Parameter
function comm.parameter(name, values, how) end

--- Returns a list of parameters as one object.
---@param list moonring.Parameter[]
---@return moonring.Parameters
function comm.parameters(list) end

return comm
