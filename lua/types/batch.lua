---@meta moonring.batch

--- A micro-batch as an objective sees it.
---@class moonring.batch
---@field nothing moonring.MicroBatch of no documents, for a rank that has fewer micro-batches than those it shares weights with
local batch = {}

--- Nothing is cut before it is asked for.
---@param micro moonring.MicroBatch
---@param attention moonring.Attention
---@param mesh moonring.Mesh
---@param slot? integer which of an example's documents the micro-batch begins with: 1 for KTO's mismatched ones; 0 where absent
---@return moonring.Batch
function batch.new(micro, attention, mesh, slot) end

--- A list of micro-batches, with nothing at its end up to the longest list of all ranks. Collective over all ranks.
---@param micros moonring.MicroBatch[]
---@param mesh moonring.Mesh
---@return moonring.MicroBatch[]
function batch.in_lockstep(micros, mesh) end

--- Which groups a batch's router tallies are of.
---@class moonring.RouterWatch
---@field size integer examples of a group
---@field groups integer how many there are in the step

--- Sums over this rank's tokens and all layers with a router.
---@class moonring.RouterTally
---@field probability moonring.Tensor [groups, experts]: of the routers' probabilities; differentiable
---@field chosen moonring.Tensor int64 [groups, experts]: how often each expert was chosen

--- ids, positions, targets, plan and layout are this rank's share, cut when one of them is first asked for; they live as long as the scope in which that is.
---@class moonring.Batch
---@field micro moonring.MicroBatch
---@field attention moonring.Attention
---@field mesh moonring.Mesh
---@field slot integer
---@field statistics table<string, moonring.Tensor> what log-probs left besides: per token of this rank at token level, summed over documents at sequence level
---@field reference? moonring.Tensor fp64 [documents]: the reference model's log-probs, where the objective needs them
---@field ids moonring.Tensor int64 [T_local]
---@field positions moonring.Tensor int64 [T_local]
---@field targets moonring.Tensor int64 [T_local]; -100: none
---@field cut_targets? moonring.Tensor the same on the host, once log-probs were made
---@field plan moonring.AttentionPlan
---@field layout moonring.Layout
---@field router? moonring.RouterWatch what of the model's routers `hidden` is to tally; none where absent
---@field tally? moonring.RouterTally what `hidden` left, where the batch has a `router` and the model has experts
---@field joined? moonring.Tensor the sum of the log-probs made of it so far, where they have a graph
local Batch = {}

--- The whole stream, uncut.
---@return moonring.Sequence
function Batch:sequence() end

--- Unshifted labels of the whole stream, int64 [T].
---@return moonring.Tensor
function Batch:labels() end

--- Tokens of each document.
---@return integer[]
function Batch:lengths() end

--- Indices of its examples in the data set, from 0.
---@return integer[]
function Batch:examples() end

--- Their places in the step, from 0.
---@return integer[]
function Batch:places() end

--- KTO: whether each example's answer is a desired one; else nil.
---@return boolean[]?
function Batch:desirable() end

--- How many documents each example has: 1; 2 for pairs (chosen, rejected, chosen, rejected, ...); those of a row of neat_packing.
---@return integer[]
function Batch:document_counts() end

--- How many examples there are.
---@return integer
function Batch:size() end

--- Predictions of each document, on all ranks: fp64 [documents].
---@return moonring.Tensor
function Batch:document_targets() end

--- Predictions of all documents.
---@return integer
function Batch:count_targets() end

--- This rank's rows of a per-token tensor of the whole stream.
---@param stream moonring.Tensor [T, ...]
---@return moonring.Tensor [T_local, ...]
function Batch:cut(stream) end

--- This rank's tokens' groups, numbered from 0, by their examples' places in the step.
---@param size integer examples of a group
---@return moonring.Tensor int64 [T_local]
function Batch:groups(size) end

--- `noise` with the identities of this rank's tokens, as a model's forward takes it; nil for nil.
---@param noise? table { seed, step, neftune_alpha }
---@return table?
function Batch:noise(noise) end

--- The stream after the model's final norm. Leaves the routers' sums in self.tally where self.router asks for them. Collective over the sp group.
---@param model moonring.Model
---@param noise? table { seed, step, neftune_alpha }
---@return moonring.Tensor hidden_TD [T_local, D]
function Batch:hidden(model, noise) end

--- Log-probs of this rank's targets. Leaves the statistics that were asked for in self.statistics.
---@param model moonring.Model
---@param hidden moonring.Tensor [T_local, D]
---@param options? table label_smoothing and statistics, as objectives.log_prob takes them
---@return moonring.Tensor [T_local]
function Batch:token_log_probs(model, hidden, options) end

--- The sum over each document of a per-token tensor of this rank, over all ranks of the sp group. Its backward is each token's own. Collective over the sp group.
---@param values moonring.Tensor [T_local]
---@return moonring.Tensor fp64 [documents]
function Batch:document_sums(values) end

--- Log-probs of the documents. Collective over the sp group.
---@param model moonring.Model
---@param hidden moonring.Tensor [T_local, D]
---@param options? table label_smoothing and statistics, as objectives.log_prob takes them
---@param weights? moonring.Tensor [T] of the tokens of the whole stream
---@return moonring.Tensor fp64 [documents]
function Batch:document_log_probs(model, hidden, options, weights) end

return batch
