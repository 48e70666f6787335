--- A micro-batch as an objective sees it: what may be counted before the first forward, and this
-- rank's share of its tokens.
local batch_forward = require "moonring.run.batch_forward"
local creation = require "moonring.base.creation"
local masks = require "moonring.run.masks"
local objectives = require "moonring.native.objectives"
local tensor = require "moonring.native.tensor"
local refuse = require("moonring.base.options").refuse
local vocabulary_losses = require "moonring.run.vocabulary_losses"

---@class moonring.batch
local batch = {}

--- Sums over this rank's tokens and all layers with a router.
---@class moonring.RouterTally
--- [groups, experts]: of the routers' probabilities; differentiable
---@field probability moonring.Tensor
---@field chosen moonring.Tensor int64 [groups, experts]: how often each expert was chosen

--- Which groups a batch's router tallies are of.
---@class moonring.RouterWatch
---@field size integer examples of a group
---@field groups integer how many there are in the step

--- ids, positions, targets, plan and layout are this rank's share, cut when one of them is first
--- asked for; they live as long as the scope in which that is.
---@class moonring.Batch
---@field micro moonring.MicroBatch
---@field attention moonring.Attention
---@field mesh moonring.Mesh
---@field slot integer
--- what log-probs left besides: per token of this rank at token level, summed over documents at
--- sequence level
---@field statistics table<string, moonring.Tensor>
--- the reference model's log-probs, fp64 [documents] or [T_local], or its states, where the
--- objective needs them
---@field reference? moonring.Tensor | moonring.ReferenceRows
---@field ids moonring.Tensor int64 [T_local]
---@field positions moonring.Tensor int64 [T_local]
---@field targets moonring.Tensor int64 [T_local]; -100: none
---@field cut_targets? moonring.Tensor the same on the host, once log-probs were made
---@field plan moonring.AttentionPlan
---@field layout moonring.Layout
---@field shifted? boolean whether its attention is shifted (shift_attn)
---@field ledger? moonring.Rollouts knows what stands behind each example, where it was generated
---@field wanted_mask? moonring.MaskTable | moonring.MaskFunction what Batch:mask was given
--- what of the model's routers `hidden` is to tally; none where absent
---@field router? moonring.RouterWatch
--- what `hidden` left, where the batch has a `router` and the model has experts
---@field tally? moonring.RouterTally
--- the sum of what was made of it and a head so far, where that has a graph
---@field joined? moonring.Tensor
--- by layer: the stream after those that `hidden` was to keep
---@field states? table<integer, moonring.Tensor>
local Batch = {}

-- Numbers of each token.
for name, method in pairs(vocabulary_losses) do Batch[name] = method end

local CUT = { ids = true, positions = true, targets = true, plan = true, layout = true }

function Batch:__index(name)
  if Batch[name] or not CUT[name] then return Batch[name] end
  self.ids, self.positions, self.targets, self.plan, self.layout = masks.cut(self)
  return rawget(self, name)
end

--- Nothing is cut before it is asked for.
---@param micro moonring.MicroBatch
---@param attention moonring.Attention
---@param mesh moonring.Mesh
---@param slot? integer the first of an example's documents in it: 1 for KTO's mismatched ones
---@return moonring.Batch
function batch.new(micro, attention, mesh, slot)
  return setmetatable({ micro = micro, attention = attention, mesh = mesh, slot = slot or 0,
    statistics = {} }, Batch)
end

--- Who sees whom in it beyond the causal rule; before anything is cut.
---@param mask? moonring.MaskTable | moonring.MaskFunction
---@return moonring.Batch itself
function Batch:mask(mask) return masks.want(self, mask) end

--- The whole stream, uncut.
---@return moonring.Sequence
function Batch:sequence() return self.micro:sequence() end

--- Unshifted labels of the whole stream, int64 [T].
---@return moonring.Tensor
function Batch:labels() return self.micro:labels() end

--- Tokens of each document of the stream, shared prefixes among them.
---@return integer[]
function Batch:lengths() return self:sequence():lengths() end

--- Of a tensor with a row for each document of the stream the rows of the examples' own documents.
--- These are all, but where documents share prefixes (Sequence:parents): a prefix is a document of
--- the stream and none of an example, and what this class has by document leaves it out.
---@param rows moonring.Tensor [documents of the stream, ...]
---@return moonring.Tensor [documents, ...]
function Batch:own(rows)
  local own = self:sequence():own_documents()
  return own and rows:index_select(0, own:on(rows)) or rows
end

--- Values of the examples' own documents as values of all documents of the stream.
---@generic T
---@param numbers T[] one a document, in the order of examples and their documents
---@param otherwise? T of a shared prefix; 0 where absent
---@return T[]
function Batch:by_stream(numbers, otherwise)
  if otherwise == nil then otherwise = 0 end
  local sequence = self:sequence()
  local own = sequence:own_documents()
  if not own then return numbers end
  if own:numel() ~= #numbers then
    refuse("by_stream", tostring(#numbers), " numbers for ", tostring(own:numel()), " documents")
  end
  local all = {}
  for d = 1, #sequence:lengths() do all[d] = otherwise end
  for i, d in ipairs(own:tolist()) do all[d + 1] = numbers[i] end
  return all
end

--- Where each of the examples' own documents ends in the stream: tokens up to there.
---@return integer[]
function Batch:ends()
  local ends, found, own = {}, {}, self:sequence():own_documents()
  for d, length in ipairs(self:lengths()) do ends[d] = (ends[d - 1] or 0) + length end
  if not own then return ends end
  for i, d in ipairs(own:tolist()) do found[i] = ends[d + 1] end
  return found
end

--- A number of each document, for each of its tokens; 0 for those of shared prefixes.
---@param numbers integer[] one a document, in the order of examples and their documents
---@return moonring.Tensor int64 [T] of the whole stream
function Batch:of_tokens(numbers)
  return self:sequence():of_tokens(self:by_stream(numbers))
end

--- Indices of its examples in the data set, from 0.
---@return integer[]
function Batch:examples() return self.micro:examples() end

--- Their places in the step, from 0.
---@return integer[]
function Batch:places() return self.micro:places() end

--- What stands behind each example, where examples are generated: completions, with their
--- advantages (moonring.Completion). Errors: INVALID_ARGUMENT where they are not.
---@return moonring.Completion[]
function Batch:records()
  if not self.ledger then
    error("INVALID_ARGUMENT: records: this batch's examples were read, not generated", 0)
  end
  return self.ledger:at(self:places())
end

--- KTO: whether each example's answer is a desired one; else nil.
---@return boolean[]?
function Batch:desirable() return self.micro:desirable() end

--- How many documents each example has: 1; 2 for pairs (chosen, rejected, chosen, rejected, ...);
--- those of a row of neat_packing. Shared prefixes are not among them.
---@return integer[]
function Batch:document_counts() return self.micro:document_counts() end

--- How many examples there are.
---@return integer
function Batch:size() return #self.micro:examples() end

--- Predictions of each document, on all ranks: fp64 [documents].
---@return moonring.Tensor
function Batch:document_targets() return self:own(objectives.document_targets(self:sequence())) end

--- Predictions of all documents.
---@return integer
function Batch:count_targets() return self:document_targets():sum():item() end

--- This rank's rows of a per-token tensor of the whole stream.
---@param stream moonring.Tensor [T, ...]
---@return moonring.Tensor [T_local, ...]
function Batch:cut(stream) return self.layout:cut(stream, self.mesh:sp_rank()) end

--- A number a document, as one of each of this rank's tokens; 0 for those of shared prefixes.
---@param numbers number[] of the documents
---@return moonring.Tensor fp64 [T_local]
function Batch:per_token(numbers)
  local all = tensor.tensor(self:by_stream(numbers), "fp64")
  return self:cut(all:repeat_interleave(tensor.tensor(self:lengths(), "int64")))
end

--- The inverse of cut, outside autograd's graph: what each rank has of its own tokens, as the whole
--- stream's, the same on every rank of the sp group. Collective over the sp group.
---@param values moonring.Tensor [T_local]
---@return moonring.Tensor [T] in fp64
function Batch:join(values)
  local stream = creation.zeros({ self.layout:tokens() }, { dtype = "fp64" }):on(values)
  local index = self.layout:indices()[self.mesh:sp_rank() + 1]:on(values)
  return self.mesh:sum_sp(stream:index_copy(0, index, values:detach():to "fp64"))
end

--- `noise` with the identities of this rank's tokens, as a model's forward takes it; nil for nil.
---@param noise? table { seed, step, neftune_alpha }
---@return table?
function Batch:noise(noise) return batch_forward.noise(self, noise) end

--- This rank's tokens' groups, numbered from 0, by their examples' places in the step.
---@param size integer examples of a group
---@return moonring.Tensor int64 [T_local]
function Batch:groups(size) return batch_forward.groups(self, size) end

--- The stream after the model's final norm, or where `hooks` end it. Leaves the routers' sums in
--- self.tally where self.router asks for them. Collective over the sp group.
---@param model moonring.Model
---@param noise? table { seed, step, neftune_alpha }
---@param hooks? table { states, upto, around } of Model:forward; self.states gets the states
---@return moonring.Tensor hidden_TD [T_local, D]
function Batch:hidden(model, noise, hooks)
  return batch_forward.hidden(self, model, noise, hooks)
end

--- The sum over each document of a per-token tensor of this rank, over all ranks of the sp group.
--- Its backward is each token's own. Collective over the sp group.
---@param values moonring.Tensor [T_local], or [T_local, D] of vectors
---@return moonring.Tensor fp64 [documents], or [documents, D]
function Batch:document_sums(values)
  return self:own(objectives.document_sums(values, self.layout, self.mesh))
end

--- Log-probs of the documents. Collective over the sp group.
---@param model moonring.Model
---@param hidden moonring.Tensor [T_local, D]
---@param options? table label_smoothing, temperature and statistics, as objectives.log_prob takes
---   them
---@param weights? moonring.Tensor [T] of the tokens of the whole stream
---@return moonring.Tensor fp64 [documents]
function Batch:document_log_probs(model, hidden, options, weights)
  local log_probs = self:token_log_probs(model, hidden, options)
  if weights then log_probs = log_probs * self:cut(weights):on(log_probs) end
  local sums = {}
  for name, values in pairs(self.statistics) do sums[name] = self:document_sums(values) end
  self.statistics = sums
  return self:document_sums(log_probs)
end

return batch
