--- Evaluates an engine's objective on a data set, in the order of its rows. The result is the same
-- for any sp, dp and packing.
local autograd = require "moonring.native.autograd"
local metrics = require "moonring.base.metrics"
local options = require "moonring.base.options"
local readings = require "moonring.base.readings"
local same_data = require "moonring.run.checkpoint.same_data"
local survey = require "moonring.run.survey"
local tensor = require "moonring.native.tensor"

---@class moonring.evaluation
local evaluation = {}

---@class moonring.EvaluationOptions
---@field batch integer rows per batch
---@field micro_batch_tokens integer
---@field reference? moonring.Reference of this data set
---@field share_prefixes? boolean as in Dataset:steps
---@field accuracy? boolean computes the accuracy of tokens
---@field work? moonring.WorkCount counts the finished rows of all dp ranks

local OPTIONS = { batch = "number", micro_batch_tokens = "number", reference = "table?",
  share_prefixes = "boolean?", accuracy = "boolean?", work = "any?" }

local function always(value) return function() return value end end

-- An empty step, for a dp rank that has no rows while other dp ranks have some. Its size is 1 only
-- to avoid a division by 0.
local no_step = { size = always(1), micro_batches = always {}, mismatched = always {} }

-- Adds each row's token accuracy to `total`: the fraction of its targets that are the likeliest id.
-- Rows without targets are skipped. The numbers are added when `later` is read.
local function row_accuracy(later, total, batch)
  local targets, counts = batch:document_targets():tolist(), batch:document_counts()
  local right = batch.statistics.greedy:eq(batch.targets):to "fp64"
  later:want({ batch:document_sums(right) }, function(hits_of)
    local sum, rows, n = 0, 0, 0
    for _, documents in ipairs(counts) do
      local hits, all = 0, 0
      for d = n + 1, n + documents do hits, all = hits + hits_of[d], all + targets[d] end
      if all > 0 then sum, rows = sum + hits / all, rows + 1 end
      n = n + documents
    end
    metrics.add(total, { accuracy = { sum, rows } })
  end)
end

-- Evaluates one batch of rows on one sp group. Returns its count, this rank's sums of the loss and
-- of the routers' loss, the metrics, and separately the metrics per row.
local function one_batch(engine, step, how)
  local o, router, later = engine.objective, engine.router, readings.new()
  local micros, empty = step:micro_batches(), step == no_step
  if not empty then same_data.check(engine.mesh, step, "evaluation") end
  local by_token = o.level == "token"
  local found = { sum = 0, routed = 0, rows = {} }
  found.count = engine:total(micros, by_token and function(batch) return batch:count_targets() end
    or o.count)
  local state = o.state and o.state()
  found.metrics = survey.run(engine, step,
    { group = step:size(), reference = how.reference, alone = true, empty = empty })
  local balance = router and router:survey(engine, step, nil, step:size(), true)
  for _, micro in ipairs(engine:micro_batches(micros)) do
    tensor.scope(function()
      local batch = engine:batch(micro)
      if router then router:watch(batch, step:size(), step:size()) end
      local loss, more = engine:loss(batch, nil, how.reference)
      if router and not empty then
        later:want({ router:loss(batch, balance) }, function(numbers)
          found.routed = found.routed + numbers[1]
        end)
      end
      later:want({ loss }, function(numbers) found.sum = found.sum + numbers[1] end)
      metrics.add_later(later, found.metrics, more or {})
      if how.accuracy and by_token then row_accuracy(later, found.rows, batch) end
    end)
  end
  later:read()
  if state then o.load_state(state) end -- an evaluation does not change the state
  return found
end

-- Iterates over the steps of this dp rank, every dp-th step of the data. If weights are sharded
-- over ranks, a rank that has no further step gets an empty one while other ranks have one.
local function turns(engine, steps)
  local dp, rank = engine.mesh:dp_size(), engine.mesh:dp_rank()
  return function()
    local mine, others = nil, false
    for place = 0, dp - 1 do
      local step = steps:next()
      if place == rank then mine = step else others = others or step ~= nil end
    end
    local waits = others and engine.states and engine.states:lockstep()
    return mine or (waits and no_step) or nil
  end
end

local function with_greedy(names)
  local all = { "greedy" }
  for _, name in ipairs(names or {}) do all[#all + 1] = name end
  return all
end

--- Evaluates on a data set. Returns:
---   loss            mean of the batches' means, weighted by rows, as in the Hugging Face Trainer
---   loss_per_token  at token level: the sum over all predictions divided by their number
--- and the mean of each metric, by name. An objective's survey (survey.lua) covers one batch at a
--- time. Collective over all ranks.
---@param engine moonring.Engine
---@param dataset moonring.Dataset
---@param how moonring.EvaluationOptions
---@return table<string, number>
function evaluation.run(engine, dataset, how)
  options.check("Engine:evaluate", how, OPTIONS)
  local o, mesh, n = engine.objective, engine.mesh, dataset:size()
  local token, statistics = o.level == "token", o.statistics
  if how.accuracy and token then o.statistics = with_greedy(statistics) end
  local weighted, routed, sums, counts, measured, of_rows = 0, 0, 0, 0, {}, {}
  local steps = dataset:steps { batch = how.batch, shuffle = false,
    micro_batch_tokens = how.micro_batch_tokens, share_prefixes = how.share_prefixes,
    total_steps = math.ceil(n / how.batch) }
  for step in turns(engine, steps) do
    tensor.scope(autograd.no_grad, function()
      local found = one_batch(engine, step, how)
      if how.work then how.work:add(step:size() * mesh:dp_size()) end
      if step == no_step then return end
      local mean = found.sum / math.max(found.count, 1)
      weighted = weighted + step:size() * mean
      routed = routed + step:size() * found.routed
      sums, counts = sums + found.sum, counts + found.count
      metrics.add(measured, found.metrics)
      metrics.add(of_rows, found.rows)
    end)
  end
  o.statistics = statistics
  local once = mesh:sp_rank() == 0
  local totals = metrics.reduce(measured, mesh, o.level)
  metrics.add(totals, metrics.reduce(of_rows, mesh, "sequence"))
  local result = metrics.means(totals)
  result.loss = mesh:sum(((token or once) and weighted or 0) + routed) / n
  if token then
    result.loss_per_token = mesh:sum(sums) / math.max(mesh:sum(once and counts or 0), 1)
  end
  return result
end

return evaluation
