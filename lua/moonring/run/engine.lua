--- Runs an objective over steps and evaluations: counts first, then micro-batch by micro-batch, forward and backward. The one place that divides.
--   loss of a step = sum over its examples, on all ranks  /  the objective's count of the whole step
-- Gradients are summed over all ranks and averaged nowhere.
local batches = require "moonring.run.batch"
local metrics = require "moonring.run.metrics"
local nonfinite = require "moonring.run.nonfinite"
local objectives = require "moonring.run.objective"
local options = require "moonring.config.options"
local readings = require "moonring.run.readings"
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"
local trainer = require "moonring.native.trainer"

local runtime = {}
local Runtime = {}
Runtime.__index = Runtime

local OPTIONS = { mesh = "any", model = "any", attention = "any", objective = "table",
  parameters = "any?", reference = "table?", group = "number?", noise = "table?",
  tolerant = "boolean?", router = "table?", on_batch = "function?", states = "any?" }
local EVALUATION = { batch = "number", micro_batch_tokens = "number", reference = "table?",
  accuracy = "boolean?" }

--- Options: mesh, model, attention, objective (moonring.objective); parameters (absent: the model's and the objective's), reference
-- (moonring.reference; where the objective needs one), group (examples of a survey's group: per_device_train_batch_size x dp), noise ({ seed, neftune_alpha }),
-- tolerant (true: a loss that is not finite is returned, not raised), router (moonring.router; where experts are to be balanced: with objectives at token level), on_batch (a function that sees each micro-batch's Batch before its forward),
-- states (of trainer.zero, over the parameters; absent: each rank holds all of them).
function runtime.new(given)
  options.check("runtime.new", given, OPTIONS)
  objectives.check(given.objective)
  local self = setmetatable({}, Runtime)
  for name, value in pairs(given) do self[name] = value end
  if not self.parameters then
    self.parameters = self.model:parameters()
    if self.objective.parameters then self.parameters = self.parameters:join(self.objective.parameters) end
  end
  return self
end

local NO_GRAPH = "the objective's loss has no gradient on any rank, so the step would train "
  .. "nothing: make it of what `loss` is given (objectives.logits, detach, item and tolist leave "
  .. "the graph)"

--- The micro-batches to run of a list: with empty ones at its end where ranks that share weights have more. Then every rank must call it.
function Runtime:micro_batches(micros)
  return self.states and self.states:lockstep() and batches.in_lockstep(micros, self.mesh) or micros
end

function Runtime:batch(micro, slot) return batches.new(micro, self.attention, self.mesh, slot) end

-- What joins a forward to a backward where an objective makes values of its own. They may have left
-- the graph on this rank alone, while others wait for it in their backward: then it joins by the
-- log-probs that were made on the way, whose head ZeRO-3 gathers again, or else by the hidden states.
local function joined_of(values, batch, of_hidden)
  if not values:requires_grad() then return batch.joined or of_hidden end
  return batch.joined and values:sum() + batch.joined or values:sum()
end

--- What an objective's loss takes of a batch: log-probs of its tokens or documents, or what the
-- objective itself makes of the hidden states. And what joins this forward's graph to a backward:
-- Tensor:backward's `joined`.
function Runtime:values(batch, noise)
  local o, model = self.objective, self.model
  local hidden, values, joined = batch:hidden(model, noise), nil, nil
  if o.values then
    local of_hidden = hidden:sum() -- now: the objective may close what it is given
    values = o.values(batch, hidden, noise)
    joined = joined_of(values, batch, of_hidden)
  elseif o.level == "token" then
    values = batch:token_log_probs(model, hidden, o)
  else
    values = batch:document_log_probs(model, hidden, o, o.weights and o.weights(batch))
  end
  if values ~= hidden then hidden:close() end -- else it would live through the blocks' backward, beside their inputs
  return values, joined or values:sum()
end

--- The objective's sum (0 where it gave a number: a rank may have nothing to add), its metrics, and
-- what joins the forward's graph to a backward.
function Runtime:loss(batch, noise, reference)
  if self.objective.needs_reference then -- before the policy's forward, whose activations stay
    if not reference then error("INVALID_ARGUMENT: this objective needs a reference model", 0) end
    batch.reference = reference:log_probs(batch)
  end
  local values, joined = self:values(batch, noise)
  local sum, more = self.objective.loss(batch, values)
  if type(sum) == "number" then sum = tensor.tensor({ sum }, "fp64"):sum() end
  return sum, more, joined
end

-- The sum of `count` over a list of micro-batches.
local function total(self, micros, count)
  local sum = 0
  for _, micro in ipairs(micros) do
    sum = sum + tensor.scope(function() return count(self:batch(micro)) end)
  end
  return sum
end

-- A step of an evaluation for a dp rank that has none, while others have one. Its size is only there to be divided by.
local function always(value) return function() return value end end
local no_step = { size = always(1), micro_batches = always {}, mismatched = always {} }

-- This dp rank's documents of the step, at their places: lists policy, reference, targets.
local function surveyed(self, step, survey, reference)
  local n = step:size() * survey.per_example
  local policy, of_reference, targets = {}, {}, {}
  for i = 1, n do policy[i], of_reference[i], targets[i] = 0, 0, 0 end
  local mismatched, later = survey.documents == "mismatched", readings.new()
  for _, micro in ipairs(self:micro_batches(mismatched and step:mismatched() or step:micro_batches())) do
    tensor.scope(tensor.no_grad, function()
      local batch = self:batch(micro, mismatched and 1 or 0)
      local mine, places = self:values(batch), batch:places()
      local documents = mine:numel()
      later:want({ mine, reference:log_probs(batch), batch:document_targets() }, function(numbers)
        for i, place in ipairs(places) do
          for s = 1, survey.per_example do
            local from, to = (i - 1) * survey.per_example + s, place * survey.per_example + s
            policy[to], of_reference[to], targets[to] = numbers[from], numbers[documents + from], numbers[2 * documents + from]
          end
        end
      end)
    end)
  end
  later:read()
  return policy, of_reference, targets
end

-- Runs the objective's survey over the whole step. `alone`: the step is this dp rank's own.
function Runtime:survey(step, group, reference, alone)
  local survey = self.objective.survey
  if not survey then return {} end
  local policy, of_reference, targets = surveyed(self, step, survey, reference)
  if step == no_step then return {} end
  if not alone then
    local rows = self.mesh:sum_dp(tensor.tensor({ policy, of_reference, targets }, "fp64")):tolist()
    policy, of_reference, targets = rows[1], rows[2], rows[3]
  end
  local told = survey.run(tensor.tensor(policy, "fp64"), tensor.tensor(of_reference, "fp64"), tensor.tensor(targets, "fp64"), group)
  return (alone or self.mesh:dp_rank() == 0) and told or {} -- the same on all ranks: counted once
end

-- Ends the run where the ranks that share sequences hold other ones: their data differ. One
-- all-reduce of a checksum over each sp group: sequences, how many labels there are (they are
-- counted before any shift, so targets alone do not tell), and tags. Every rank must call it.
local function check_same(self, step, what)
  local mesh, sum, tags = self.mesh, 0, {}
  if mesh:sp_size() == 1 then return end
  for _, micros in ipairs { step:micro_batches(), step:mismatched() } do
    for _, micro in ipairs(micros) do
      sum = micro:sequence():checksum(sum, micro:labels())
      for _, desirable in ipairs(micro:desirable() or {}) do tags[#tags + 1] = desirable and "1" or "0" end
    end
  end
  if #tags > 0 then sum = bit.bxor(sum, tonumber(system.sha1(table.concat(tags)):sub(1, 8), 16)) % 2 ^ 32 end
  if mesh:same_sp(sum) then return end
  local ranks = mesh:gather_sp(("checksum %08x of examples %s"):format(sum, table.concat(step:examples(), ", ")))
  for rank, text in ipairs(ranks) do ranks[rank] = ("rank %d has %s"):format(mesh:rank() - mesh:sp_rank() + rank - 1, text) end
  error(("DATA_LOSS: %s: ranks that share sequences read other ones: %s; are the data files the same on every machine?"):format(what, table.concat(ranks, "; ")), 0)
end

-- The step's count, before its first forward; nil where it has nothing to learn, and why: no
-- examples, log-probs to learn from and no prediction among all its documents, or a count that is
-- not above 0. One all-reduce over dp.
local function count_of(self, step)
  local o, micros = self.objective, step:micro_batches()
  local count = total(self, micros, o.count)
  if count ~= math.floor(count) then
    error("INVALID_ARGUMENT: the objective's count: wanted a whole number, got " .. count, 0)
  end
  local targets = total(self, micros, function(batch) return batch:count_targets() end)
  local examples = total(self, micros, function(batch) return batch:size() end)
  local sums = self.mesh:sum_dp(tensor.tensor({ count, targets, examples }, "int64"))
  count, targets, examples = unpack(sums:tolist())
  if examples == 0 then return nil, "no example in it" end
  if targets == 0 and not o.values then
    return nil, "no label in it but -100, or none after a document's first token"
  end
  if count <= 0 then return nil, ("the objective's count of it is %d"):format(count) end
  return count
end

--- Puts the gradient of the whole step's loss into the parameters, summed over all ranks. Returns
-- that loss, and the metrics' totals: name -> { sum, count }, the same on every rank; where the
-- step has nothing to learn, before any forward, neither, and third why. `k` is the step's number,
-- for messages and noise. Where the loss is not finite it raises an error that names where that
-- came from; in a `tolerant` runtime it returns that text third, and take_back leaves no trace of
-- the step. A loss without a graph takes part in the backward's collectives with a gradient of
-- zero, and is an error where it is so on all ranks. Every rank must call it.
function Runtime:backward(step, k)
  local o, mesh = self.objective, self.mesh
  check_same(self, step, "step " .. k)
  local count, idle = count_of(self, step)
  if not count then return nil, nil, idle end
  self.before = self.tolerant and o.state and o.state()
  local told = tensor.scope(function() return self:survey(step, self.group, self.reference) end)
  local noise = self.noise and { seed = self.noise.seed, neftune_alpha = self.noise.neftune_alpha, step = k }
  local router = self.router
  local balance = router and router:survey(self, step, noise)
  local share, suspects, learns, later = 0, {}, 0, readings.new()
  for _, micro in ipairs(self:micro_batches(step:micro_batches())) do
    tensor.scope(function()
      local batch = self:batch(micro)
      if router then router:watch(batch, step:size()) end
      if self.on_batch and micro ~= batches.nothing then self.on_batch(batch) end
      local sum, more, joined = self:loss(batch, noise, self.reference)
      if sum:requires_grad() then learns = 1 end
      local loss = sum / count
      if router then loss = loss + router:loss(batch, balance) end
      if loss:requires_grad() or joined:requires_grad() then loss:backward(joined) end
      local examples = batch:examples()
      later:want({ loss }, function(numbers)
        if not nonfinite.is_finite(numbers[1]) then
          for _, example in ipairs(examples) do suspects[#suspects + 1] = example end
        end
        share = share + numbers[1]
      end)
      metrics.add_later(later, told, more or {})
    end)
  end
  later:read() -- once a step: the host is a step's work ahead of a device until here
  if mesh:max(learns) == 0 then error(("INVALID_ARGUMENT: step %d: %s"):format(k, NO_GRAPH), 0) end
  local loss = mesh:sum((o.level == "token" or mesh:sp_rank() == 0) and share or 0)
  local fault = not nonfinite.is_finite(loss) and nonfinite.of_loss(self, step, noise, loss, suspects, k) or nil
  if fault and not self.tolerant then error(fault .. "; stopped before the update", 0) end
  if self.states then self.states:sum_gradients() else trainer.sum_gradients(self.parameters, mesh) end
  return loss, metrics.reduce(told, mesh, o.level), fault
end

--- Gives the objective back its state before the last step of a `tolerant` runtime: as if that step had not been.
function Runtime:take_back()
  if self.before then self.objective.load_state(self.before) end
end

-- Of each row the part of its predictions that are the likeliest id, added up over rows that have any: to `total` once `later` is read.
local function row_accuracy(later, total, batch)
  local targets, counts = batch:document_targets():tolist(), batch:document_counts()
  later:want({ batch:document_sums(batch.statistics.greedy:eq(batch.targets):to "fp64") }, function(right)
    local sum, rows, n = 0, 0, 0
    for _, documents in ipairs(counts) do
      local hits, all = 0, 0
      for d = n + 1, n + documents do hits, all = hits + right[d], all + targets[d] end
      if all > 0 then sum, rows = sum + hits / all, rows + 1 end
      n = n + documents
    end
    metrics.add(total, { accuracy = { sum, rows } })
  end)
end

-- One batch of an evaluation, on one sp group: its divisor, this rank's sum, metrics by level, and this rank's share of the routers' loss.
local function evaluate_batch(self, step, reference, accuracy)
  local o = self.objective
  local micros = step:micro_batches()
  if step ~= no_step then check_same(self, step, "evaluation") end
  local count = total(self, micros, o.level == "token" and function(batch) return batch:count_targets() end or o.count)
  local state = o.state and o.state()
  local told, of_rows, sum, routed = self:survey(step, step:size(), reference, true), {}, 0, 0
  local router, later = self.router, readings.new()
  local balance = router and router:survey(self, step, nil, step:size(), true)
  for _, micro in ipairs(self:micro_batches(micros)) do
    tensor.scope(function()
      local batch = self:batch(micro)
      if router then router:watch(batch, step:size(), step:size()) end
      local loss, more = self:loss(batch, nil, reference)
      if router and step ~= no_step then
        later:want({ router:loss(batch, balance) }, function(numbers) routed = routed + numbers[1] end)
      end
      later:want({ loss }, function(numbers) sum = sum + numbers[1] end)
      metrics.add_later(later, told, more or {})
      if accuracy and o.level == "token" then row_accuracy(later, of_rows, batch) end
    end)
  end
  later:read()
  if state then o.load_state(state) end -- an evaluation leaves no trace
  return count, sum, told, of_rows, routed
end

-- This dp rank's turns at the steps of an evaluation: of each dp steps in a row one. In lockstep also where the last row ends before it.
local function turns(self, steps)
  local dp, rank = self.mesh:dp_size(), self.mesh:dp_rank()
  return function()
    local mine, others = nil, false
    for place = 0, dp - 1 do
      local step = steps:next()
      if place == rank then mine = step else others = others or step ~= nil end
    end
    return mine or (others and self.states and self.states:lockstep() and no_step) or nil
  end
end

--- Evaluates on a data set, in its order. Options: batch (rows of a batch), micro_batch_tokens, reference (of this data set), accuracy (true: of tokens).
--   loss            mean of the batches' means, by rows: as the Hugging Face Trainer has it, on any dp, sp and packing
--   loss_per_token  at token level: the sum over all predictions by their number
-- and the metrics' means by name. A survey's group is a batch. Every rank must call it.
function Runtime:evaluate(dataset, how)
  options.check("Runtime:evaluate", how, EVALUATION)
  local o, mesh, n = self.objective, self.mesh, dataset:size()
  local statistics = o.statistics
  if how.accuracy and o.level == "token" then
    o.statistics = { "greedy" }
    for _, name in ipairs(statistics or {}) do o.statistics[#o.statistics + 1] = name end
  end
  local weighted, sums, counts, told, of_rows = 0, 0, 0, {}, {}
  local steps = dataset:steps { batch = how.batch, shuffle = false,
    micro_batch_tokens = how.micro_batch_tokens, total_steps = math.ceil(n / how.batch) }
  for step in turns(self, steps) do
    tensor.scope(tensor.no_grad, function()
      local count, sum, more, rows, routed = evaluate_batch(self, step, how.reference, how.accuracy)
      if step == no_step then return end
      weighted = weighted + step:size() * (sum / math.max(count, 1) + routed)
      sums, counts = sums + sum, counts + count
      metrics.add(told, more)
      metrics.add(of_rows, rows)
    end)
  end
  o.statistics = statistics
  local token = o.level == "token"
  local once = mesh:sp_rank() == 0
  local result = metrics.means(metrics.add(metrics.reduce(told, mesh, o.level), metrics.reduce(of_rows, mesh, "sequence")))
  result.loss = mesh:sum((token or once) and weighted or 0) / n
  if token then result.loss_per_token = mesh:sum(sums) / math.max(mesh:sum(once and counts or 0), 1) end
  return result
end

return runtime
