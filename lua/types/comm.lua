---@meta moonring.native.comm

--- What ranks share: the mesh, packed sequences and their layout, named parameters.
---@class moonring.comm
local comm = {}

---@class moonring.MeshOptions
---@field sp? integer ranks that share one sequence; divides the number of ranks; 1 where absent
--- seconds that a collective, or a rank's coming, may take; 1800 where absent
---@field deadline? number
--- what the ranks compute on: Gloo alone, or NCCL beside it; "cpu" where absent
---@field device? "cpu" | "cuda"
--- this rank by itself, whatever ranks there are: no connection, not collective; false where absent
---@field alone? boolean

--- Connects the ranks, by torchrun's environment (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT) or
--- Slurm's; without one, a mesh of one rank. The host closes it when the script has ended.
--- Collective over all ranks, once a script, at the prompt as often as one likes. With
--- MOONRING_TOKEN in the environment, the same for each rank, no other program can join them. With
--- MOONRING_EXCHANGE=host ranks may share a GPU: what they exchange goes through the host's memory,
--- which is slow. Errors: INVALID_ARGUMENT where
--- sp does not divide the ranks; DEADLINE_EXCEEDED, naming who did not come; UNAVAILABLE where the
--- port is taken; PERMISSION_DENIED where a rank has another token, or another program has come in
--- a rank's place.
---@param options? moonring.MeshOptions
---@return moonring.Mesh
function comm.mesh(options) end

---@class moonring.SequenceOptions
---@field documents integer[][] token ids of each document, one at least in each
--- what is learnt at each token, unshifted; -100: nothing; the ids themselves where absent
---@field labels? integer[][]
--- for the rotary embedding; from 0 in each document where absent
---@field positions? integer[][]
--- by document, from 1: shared prefixes. A document goes on where the first `length` tokens of its
--- parent end, and sees these as tokens before its own. What is a parent predicts nothing
---@field parents? table<integer, moonring.ParentPrefix>

--- A packed stream of documents: no batch dimension, no padding. Targets are the labels shifted
--- inside each document. Errors: INVALID_ARGUMENT where labels, positions and ids differ in number,
--- and where a parent is not there, has fewer tokens, predicts, or goes on from itself.
---@param options moonring.SequenceOptions
---@return moonring.Sequence
function comm.sequence(options) end

--- All ranks along two axes, dp x sp: rank = dp_rank * sp_size + sp_rank. The ranks of an sp group
--- share one stream of documents; those of a dp group have different ones.
---@class moonring.Mesh
local Mesh = {}

--- Ranks that share one sequence.
---@return integer
function Mesh:sp_size() end

--- This rank's place among them, from 0.
---@return integer
function Mesh:sp_rank() end

--- Sequences that are worked on at once: ranks / sp_size.
---@return integer
function Mesh:dp_size() end

--- Which of them this rank works on, from 0.
---@return integer
function Mesh:dp_rank() end

--- This rank among all, from 0.
---@return integer
function Mesh:rank() end

--- All ranks.
---@return integer
function Mesh:size() end

--- The sum of every rank's number, in fp64. Collective over all ranks.
---@param number number
---@return number
function Mesh:sum(number) end

--- The greatest of every rank's number. Collective over all ranks.
---@param number number
---@return number
function Mesh:max(number) end

--- Every rank's number, in the order of ranks. Collective over all ranks.
---@param number number
---@return number[]
function Mesh:gather_numbers(number) end

--- Whether all ranks of this rank's sp group have the same whole number. Collective over the sp
--- group.
---@param number integer
---@return boolean
function Mesh:same_sp(number) end

--- The text of each rank of this rank's sp group, in their order. Collective over the sp group.
---@param text string
---@return string[]
function Mesh:gather_sp(text) end

--- Seconds in collectives and transfers so far: waiting for other ranks, and for what they send.
---@return number
function Mesh:waited() end

--- The sum, exact, of a whole number over this rank's dp group: a step's count from each rank's
--- share of the examples. Collective over the dp group.
---@param count integer | moonring.Tensor a tensor of one shape: its sum, as a new tensor outside
---   autograd's graph
---@return integer | moonring.Tensor
function Mesh:sum_dp(count) end

--- The sum of a tensor of one shape over this rank's sp group, as a new tensor outside autograd's
--- graph. Collective over the sp group.
---@param tensor moonring.Tensor fp32, fp64, bf16 or int64
---@return moonring.Tensor
function Mesh:sum_sp(tensor) end

--- Every rank's text, in the order of ranks. Collective over all ranks.
---@param text string any bytes, of any length
---@return string[]
function Mesh:gather(text) end

--- Waits for all ranks. Collective over all ranks.
function Mesh:barrier() end

--- What this rank has sent over the sp group and the world so far.
---@return integer steps of communication
---@return integer bytes sent
function Mesh:traffic() end

--- Lets go of this handle. The connections are the host's to close, when the script has ended.
function Mesh:close() end

--- Who owns which token of one micro-batch: a partition of a stream over the ranks of an sp group.
--- Immutable; a pure function of the documents' lengths, the number of ranks and the strategy, so
--- that every rank makes the same one by itself.
---@class moonring.Layout
local Layout = {}

--- Over how many ranks.
---@return integer
function Layout:ranks() end

--- T, of the whole stream.
---@return integer
function Layout:tokens() end

--- T_local of a rank; may be 0.
---@param rank integer from 0
---@return integer
function Layout:local_tokens(rank) end

--- The rank's rows of a per-token tensor: [T, ...] -> [T_local, ...]. Differentiable.
---@param stream moonring.Tensor
---@param rank integer from 0
---@return moonring.Tensor
function Layout:cut(stream, rank) end

--- For each rank (list index rank + 1) the rows of the stream that its local rows are: int64
--- [T_local].
---@return moonring.Tensor[]
function Layout:indices() end

--- The ranks as a grid (comm/layout.h): places along which a stream is cut, and over whose ranks
--- heads are split.
---@class moonring.LayoutGrid
---@field contexts integer
---@field heads integer ranks of a place
---@field placement "head_first" | "context_first"
---@field ownership string "contiguous", "zigzag", "whole documents"

--- How its ranks are a grid.
---@return moonring.LayoutGrid
function Layout:grid() end

--- The rows of a place on the context axis: document (from 1), first token and the one after the
--- last, of each span, one after another.
---@param place integer from 0
---@return integer[]
function Layout:context_spans(place) end

function Layout:close() end

--- A packed stream of documents, uncut, on the host. Three things that are never inferred from one
--- another: lengths (who sees whom), positions (rotary embedding alone), targets.
---@class moonring.Sequence
local Sequence = {}

--- int64 [T].
---@return moonring.Tensor
function Sequence:ids() end

--- int64 [T]: places in the document, from 0.
---@return moonring.Tensor
function Sequence:positions() end

--- int64 [T]: the id to predict after each token, -100 where there is none (at each document's end,
--- in prompts).
---@return moonring.Tensor
function Sequence:targets() end

--- A number for each token that does not depend on where it is packed, for randomness; nil where
--- nobody gave one: int64 [T].
---@return moonring.Tensor?
function Sequence:identity() end

--- Tokens of each document; they sum to T.
---@return integer[]
function Sequence:lengths() end

--- The parents of documents that share prefixes, by document, from 1; nil where none does.
---@return table<integer, moonring.ParentPrefix>?
function Sequence:parents() end

--- Which documents, from 0, are nobody's parent: int64 [own documents]; nil where all are, as no
--- prefix is shared.
---@return moonring.Tensor?
function Sequence:own_documents() end

--- Of each document how many tokens may see each other without seeing what they predict: all up to
--- the first that predicts, or the whole document where none does.
---@return integer[]
function Sequence:prompts() end

--- A number of each document, for each of its tokens: int64 [T].
---@param numbers integer[] one a document
---@return moonring.Tensor
function Sequence:of_tokens(numbers) end

--- T.
---@return integer
function Sequence:tokens() end

--- CRC-32 of lengths, ids, positions, targets and parents, each with how many there are, and of how
--- many labels count.
---@param before? integer that of the sequences before it, to go on from
---@param labels? moonring.Tensor int64 [T]: unshifted labels; those that are not -100 count
---@return integer
function Sequence:checksum(before, labels) end

function Sequence:close() end

--- A weight of a model by its Hugging Face name. It is never part of autograd's graph: backward
--- adds to its gradient here.
---@class moonring.Parameter
local Parameter = {}

--- The published (Hugging Face) name.
---@return string
function Parameter:name() end

--- Gives it another name, before a run takes it by its name.
---@param name string
function Parameter:rename(name) end

--- Whether it learns.
---@return boolean
function Parameter:trainable() end

--- The stored weight itself, not a copy: what copy_ writes into it changes the model. Where it is
--- held elsewhere (sharded over ranks, or as masters of weights in bf16) a copy, gathered by all
--- ranks, into which nothing can be written.
---@return moonring.Tensor
function Parameter:weight() end

--- The weight as a part of autograd's graph: for modules written in Lua. The gradient that comes to
--- it goes on into the parameter. A parameter that does not learn, or under no_grad, is just the
--- weight. Where it is sharded over ranks all of them use it in the same order.
---@param dtype? moonring.Dtype its own where absent
---@return moonring.Tensor
function Parameter:use(dtype) end

--- The shape of the whole weight.
---@return integer[]
function Parameter:shape() end

--- The dtype in which it is stored.
---@return string
function Parameter:dtype() end

--- Sets whether it learns; before it becomes a part of a run's states.
---@param trainable boolean
function Parameter:set_trainable(trainable) end

--- Writes the weight, wherever it is held: the next forward is of these numbers, and so is the
--- optimizer's master. Of a weight that is sharded over ranks every rank calls it with the same.
--- Not between a forward and its backward. Errors: INVALID_ARGUMENT, where the shape is another.
---@param weight moonring.Tensor of the weight's shape, in any dtype
function Parameter:copy_(weight) end

--- What backward has added since the last `clear_gradients`, in fp32 (fp64 for an fp64 weight); nil
--- where nothing was, or where it goes into shards (States:gradient).
---@return moonring.Tensor?
function Parameter:gradient() end

function Parameter:close() end

--- The parameters of a model, in the order of a forward pass; a tied weight once, under the
--- embedding's name.
---@class moonring.Parameters
local Parameters = {}

--- Each of them.
---@return moonring.Parameter[]
function Parameters:list() end

--- How many there are.
---@return integer
function Parameters:size() end

--- These and then those, as a new list.
---@param more moonring.Parameters
---@return moonring.Parameters
function Parameters:join(more) end

--- Lets go of all gradients: after a step of the optimizer, before the next backward.
function Parameters:clear_gradients() end

--- How many numbers they hold in all.
---@return integer
function Parameters:numel() end

function Parameters:close() end

---@class moonring.ParameterOptions
---@field trainable? boolean whether it learns; true where absent

--- A parameter of a script's own, with a copy of `values`: it may be joined to a model's parameters
--- and learns, is saved and is sharded as they are (`moonring.nn` makes them). Errors:
--- INVALID_ARGUMENT, where the numbers are no floating-point ones.
---@param name string under which it is saved: unlike every other parameter's
---@param values moonring.Tensor
---@param how? moonring.ParameterOptions
---@return moonring.Parameter
function comm.parameter(name, values, how) end

--- Parameters as one list.
---@param list moonring.Parameter[]
---@return moonring.Parameters
function comm.parameters(list) end

return comm
