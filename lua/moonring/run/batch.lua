--- The micro-batch that an objective works on: properties of the whole stream, known before the
-- first forward, and this rank's shard of its tokens.
local batch_collectives = require "moonring.run.batch_collectives"
local batch_forward = require "moonring.run.batch_forward"
local creation = require "moonring.base.creation"
local errors = require "moonring.base.errors"
local masks = require "moonring.run.masks"
local objectives = require "moonring.native.objectives"
local refuse = require("moonring.base.options").refuse
local vocabulary_losses = require "moonring.run.vocabulary_losses"

---@class moonring.batch
local batch = {}

--- Sums over the decisions of the routers of a mixture of experts, for this rank's tokens and all
--- layers with a router. `probability`, [groups, experts], sums the routers' probabilities and is
--- differentiable.
---@class moonring.RouterTally
---@field probability moonring.Tensor
---@field chosen moonring.Tensor int64 [groups, experts]: how often each expert was chosen

--- How a step's examples are grouped for the routers' load-balancing loss.
---@class moonring.RouterWatch
---@field size integer examples per group
---@field groups integer number of groups in the step

--- A micro-batch with this rank's shard of its tokens. The fields ids, positions, targets, plan and
--- layout are this shard: they are computed at the first access to one of them, and freed at the
--- end of the tensor scope (tensor.scope) of that access.
---@class moonring.Batch
---@field micro moonring.MicroBatch
---@field attention moonring.Attention
---@field mesh moonring.Mesh
---@field slot integer
--- `statistics`: the statistics that were requested with the log-probs. At token level they are per
--- token of this rank, at sequence level they are summed over each document.
---@field statistics table<string, moonring.Tensor>
--- `reference`: what the objective needs of the reference model, if anything: its log-probs, fp64
--- [documents] or [T_local], or its hidden states.
---@field reference? moonring.Tensor | moonring.ReferenceRows
---@field ids moonring.Tensor int64 [T_local]
---@field positions moonring.Tensor int64 [T_local]
---@field targets moonring.Tensor int64 [T_local]; -100: no target
---@field cut_targets? moonring.Tensor the targets on the host, after log-probs were computed
---@field head_noise? table { model, drawn } the noise of the last forward, for LoRA on the head
---@field plan moonring.AttentionPlan
---@field layout moonring.Layout
---@field shifted? boolean whether attention is shifted by half a group (LongLoRA, shift_attn)
---@field ledger? moonring.Rollouts has the completion of each example, if examples are generated
---@field wanted_mask? moonring.MaskTable | moonring.MaskFunction the argument of Batch:mask
--- `router`: the groups of examples for which `hidden` sums the routers' decisions; absent: nothing
--- is summed.
---@field router? moonring.RouterWatch
--- `tally`: the sums of the routers' decisions; set by `hidden` if the batch has a `router` and the
--- model has experts.
---@field tally? moonring.RouterTally
--- `joined`: a scalar whose backward reaches every tensor computed from this batch with a
--- language-model head: their sum so far.
---@field joined? moonring.Tensor
--- `exchanged`: the same for tensors that ranks have exchanged (batch_collectives.lua).
---@field exchanged? moonring.Tensor
--- `states`: by layer, the hidden states after each layer that `hidden` was asked to keep.
---@field states? table<integer, moonring.Tensor>
local Batch = {}

-- Methods that compute per-token losses and statistics, and differentiable collectives.
for name, method in pairs(vocabulary_losses) do Batch[name] = method end
for name, method in pairs(batch_collectives) do Batch[name] = method end

local CUT = { ids = true, positions = true, targets = true, plan = true, layout = true }

function Batch:__index(name)
  if Batch[name] or not CUT[name] then return Batch[name] end
  self.ids, self.positions, self.targets, self.plan, self.layout = masks.cut(self)
  return rawget(self, name)
end

--- Wraps a micro-batch. This rank's shard of the tokens is cut from the stream only when a field
--- that needs it is accessed.
---@param micro moonring.MicroBatch
---@param attention moonring.Attention
---@param mesh moonring.Mesh
---@param slot? integer index of the first of an example's documents; 1 for KTO's mismatched ones
---@return moonring.Batch
function batch.new(micro, attention, mesh, slot)
  return setmetatable({ micro = micro, attention = attention, mesh = mesh, slot = slot or 0,
    statistics = {} }, Batch)
end

--- Sets which tokens may attend to which beyond the causal rule. Call it before the first access to
--- ids, positions, targets, plan or layout.
---@param mask? moonring.MaskTable | moonring.MaskFunction
---@return moonring.Batch itself
function Batch:mask(mask) return masks.want(self, mask) end

--- The stream of the whole sp group, not only this rank's tokens.
---@return moonring.Sequence
function Batch:sequence() return self.micro:sequence() end

--- Unshifted labels of the whole stream, int64 [T].
---@return moonring.Tensor
function Batch:labels() return self.micro:labels() end

--- Token counts of the stream's documents, including shared prefixes.
---@return integer[]
function Batch:lengths() return self:sequence():lengths() end

--- Selects the rows of the examples' own documents from a tensor with one row per document of the
--- stream. A shared prefix (Sequence:parents) is a document of the stream but belongs to no single
--- example, so its row is removed. Without shared prefixes all rows remain.
---@param rows moonring.Tensor [documents of the stream, ...]
---@return moonring.Tensor [documents, ...]
function Batch:own(rows)
  local own = self:sequence():own_documents()
  return own and rows:index_select(0, own:on(rows)) or rows
end

--- Expands one value per document of the examples to one value per document of the stream, which
--- also contains shared prefixes.
---@generic T
---@param numbers T[] one per document, in the order of examples and their documents
---@param otherwise? T the value for a shared prefix; 0 if absent
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

--- The offset in the stream, in tokens, at which each document of the examples ends. Shared
--- prefixes are omitted.
---@return integer[]
function Batch:ends()
  local ends, found, own = {}, {}, self:sequence():own_documents()
  for d, length in ipairs(self:lengths()) do ends[d] = (ends[d - 1] or 0) + length end
  if not own then return ends end
  for i, d in ipairs(own:tolist()) do found[i] = ends[d + 1] end
  return found
end

--- Repeats one number per document for each of its tokens; 0 for tokens of shared prefixes.
---@param numbers integer[] one per document, in the order of examples and their documents
---@return moonring.Tensor int64 [T] of the whole stream
function Batch:of_tokens(numbers)
  return self:sequence():of_tokens(self:by_stream(numbers))
end

--- Indices of the batch's examples in the data set, from 0.
---@return integer[]
function Batch:examples() return self.micro:examples() end

--- Positions of the batch's examples in the step, from 0.
---@return integer[]
function Batch:places() return self.micro:places() end

--- The completions, with their advantages (moonring.Completion), from which the examples were made,
--- in stages that generate examples. Errors: INVALID_ARGUMENT in other stages.
---@return moonring.Completion[]
function Batch:records()
  if not self.ledger then
    errors.fail "records: this batch's examples were read, not generated"
  end
  return self.ledger:at(self:places())
end

--- For each example, whether its answer is a desired one (KTO); nil in other stages.
---@return boolean[]?
function Batch:desirable() return self.micro:desirable() end

--- The number of documents of each example: 1; 2 for pairs (chosen, rejected, chosen, rejected,
--- ...); more for a row of neat_packing. Shared prefixes are not counted.
---@return integer[]
function Batch:document_counts() return self.micro:document_counts() end

--- The number of examples.
---@return integer
function Batch:size() return #self.micro:examples() end

--- The number of targets of each document, on all ranks: fp64 [documents].
---@return moonring.Tensor
function Batch:document_targets() return self:own(objectives.document_targets(self:sequence())) end

--- The number of targets of all documents.
---@return integer
function Batch:count_targets() return self:document_targets():sum():item() end

--- This rank's rows of a per-token tensor of the whole stream.
---@param stream moonring.Tensor [T, ...]
---@return moonring.Tensor [T_local, ...]
function Batch:cut(stream) return self.layout:cut(stream, self.mesh:sp_rank()) end

--- The inverse of cut, outside autograd's graph: joins the values of each rank's tokens to those of
--- the whole stream, the same on every rank of the sp group. Collective over the sp group.
---@param values moonring.Tensor [T_local]
---@return moonring.Tensor [T] in fp64
function Batch:join(values)
  local stream = creation.zeros({ self.layout:tokens() }, { dtype = "fp64" }):on(values)
  local index = self.layout:indices()[self.mesh:sp_rank() + 1]:on(values)
  return self.mesh:sum_sp(stream:index_copy(0, index, values:detach():to "fp64"))
end

--- Adds to `noise` a number for each of this rank's tokens, by which a model's forward draws random
--- numbers independent of sp and packing. Returns nil for nil.
---@param noise? table { seed, step, neftune_alpha }
---@return table?
function Batch:noise(noise) return batch_forward.noise(self, noise) end

--- The group of each of this rank's tokens, from 0: examples are grouped by position in the step.
---@param size integer examples per group
---@return moonring.Tensor int64 [T_local]
function Batch:groups(size) return batch_forward.groups(self, size) end

--- Runs the model's forward: the hidden states after its final norm, or after the layer at which
--- `hooks` ends the forward. If self.router is set, the routers' decisions are summed in
--- self.tally. Collective over the sp group.
---@param model moonring.Model
---@param noise? table { seed, step, neftune_alpha }
---@param hooks? table of Model:forward: states, upto, around, inside; sets self.states
---@return moonring.Tensor hidden_TD [T_local, D]
function Batch:hidden(model, noise, hooks)
  return batch_forward.hidden(self, model, noise, hooks)
end

--- Sums a per-token tensor of this rank over each document, on all ranks of the sp group. In the
--- backward every token of a document gets the gradient of the document's sum. Collective over the
--- sp group.
---@param values moonring.Tensor [T_local], or vectors [T_local, D]
---@return moonring.Tensor fp64 [documents], or [documents, D]
function Batch:document_sums(values)
  return self:own(objectives.document_sums(values, self.layout, self.mesh))
end

--- Log-probs summed over each document. Collective over the sp group.
---@param model moonring.Model
---@param hidden moonring.Tensor [T_local, D]
---@param options? table label_smoothing, temperature and statistics of objectives.log_prob
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
