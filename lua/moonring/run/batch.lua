--- A micro-batch as an objective sees it: what may be counted before the first forward, and this rank's share of its tokens.
local comm = require "moonring.native.comm"
local objectives = require "moonring.native.objectives"
local tensor = require "moonring.native.tensor"

local batch = {}
local Batch = {}

-- ids, positions, targets, plan and layout are cut when one of them is first asked for. They live as long as the scope in which that is.
function Batch:__index(name)
  if Batch[name] then return Batch[name] end
  if name == "ids" or name == "positions" or name == "targets" or name == "plan" or name == "layout" then
    self.ids, self.positions, self.targets, self.plan, self.layout = self.attention:cut(self:sequence())
    return rawget(self, name)
  end
end

--- `slot`: which of an example's documents the micro-batch begins with (KTO's mismatched ones are documents 1).
function batch.new(micro, attention, mesh, slot)
  return setmetatable({ micro = micro, attention = attention, mesh = mesh, slot = slot or 0, statistics = {} }, Batch)
end

local function none() return {} end

--- A micro-batch of nothing, for a rank that has fewer than those it shares weights with.
batch.nothing = {
  sequence = function() return comm.sequence { documents = {} } end,
  labels = function() return tensor.tensor({}, "int64") end,
  examples = none, places = none, document_counts = none, desirable = none,
}

--- A list of micro-batches, with nothing at its end up to the longest list of all ranks. Every rank must call it.
function batch.in_lockstep(micros, mesh)
  local all = { unpack(micros) }
  for i = #micros + 1, mesh:max(#micros) do all[i] = batch.nothing end
  return all
end

function Batch:sequence() return self.micro:sequence() end
function Batch:labels() return self.micro:labels() end
function Batch:lengths() return self:sequence():lengths() end
function Batch:examples() return self.micro:examples() end
function Batch:places() return self.micro:places() end
function Batch:desirable() return self.micro:desirable() end
function Batch:document_counts() return self.micro:document_counts() end

--- How many examples there are.
function Batch:size() return #self.micro:examples() end

--- Predictions of each document, on all ranks: fp64 [documents].
function Batch:document_targets() return objectives.document_targets(self:sequence()) end

--- Predictions of all documents.
function Batch:count_targets() return self:document_targets():sum():item() end

--- This rank's rows of a per-token tensor of the whole stream.
function Batch:cut(stream) return self.layout:cut(stream, self.mesh:sp_rank()) end

--- What makes randomness the same wherever a token lies: `noise` ({ seed, step, neftune_alpha }) with the tokens' identities.
function Batch:noise(noise)
  if not noise then return nil end
  local sequence = self:sequence()
  return { seed = noise.seed, step = noise.step, neftune_alpha = noise.neftune_alpha, identity = self:cut(sequence:identity() or sequence:of_tokens {}), -- of nothing
    lengths = noise.neftune_alpha and self:cut(sequence:of_tokens(sequence:lengths())) or nil }
end

--- This rank's tokens' groups, `size` examples of the step to each, from 0.
function Batch:groups(size)
  local of_documents, counts = {}, self:document_counts()
  for i, place in ipairs(self:places()) do
    for _ = 1, counts[i] do of_documents[#of_documents + 1] = math.floor(place / size) end
  end
  return self:cut(self:sequence():of_tokens(of_documents))
end

--- The stream after the model's final norm, this rank's rows [T_local, D]. Where the batch has a `router` ({ size, groups }: moonring.router) the sums of the
-- model's routers over this rank's tokens are left in self.tally: { probability, chosen }, each [groups, experts].
function Batch:hidden(model, noise)
  local options, router = self:noise(noise) or {}, self.router
  if router then options.router_groups, options.router_group_count = self:groups(router.size), router.groups end
  local hidden, probability, chosen = model:forward(self.ids, self.positions, self.plan, options)
  self.tally = probability and { probability = probability, chosen = chosen }
  return hidden
end

--- Log-probs of this rank's targets [T_local] from hidden states. `options`: label_smoothing and statistics, as objectives.log_prob takes them;
-- the statistics are left in self.statistics.
function Batch:token_log_probs(model, hidden, options)
  local tile = model:tile_bytes()
  self.cut_targets = self.cut_targets or self.targets -- on the host, where which rows have one is known without waiting for a device
  local log_probs, statistics = objectives.log_prob(hidden, model:head(), self.cut_targets,
    { dtype = model:matmul_dtype(), chunk_bytes = tile > 0 and tile or 2 ^ 53, label_smoothing = options and options.label_smoothing, statistics = options and options.statistics })
  self.statistics = statistics or {}
  self.targets = self.targets:on(log_probs) -- so that an objective may compare them
  if log_probs:requires_grad() then -- what an objective leaves of it, others' backward may wait for
    local sum = log_probs:sum()
    self.joined = self.joined and self.joined + sum or sum
  end
  return log_probs
end

--- The sum over each document of a per-token tensor of this rank, over all ranks of the sp group: fp64 [documents]. Its backward is each token's own.
function Batch:document_sums(values) return objectives.document_sums(values, self.layout, self.mesh) end

--- Log-probs of the documents, fp64 [documents]. `weights`: of the tokens of the whole stream.
function Batch:document_log_probs(model, hidden, options, weights)
  local log_probs = self:token_log_probs(model, hidden, options)
  if weights then log_probs = log_probs * self:cut(weights):on(log_probs) end
  local sums = {}
  for name, values in pairs(self.statistics) do sums[name] = self:document_sums(values) end
  self.statistics = sums
  return self:document_sums(log_probs)
end

return batch
