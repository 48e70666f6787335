--- Log-probs of the tokens of a pack: prompts one after another, as one stream.
local collectives = require "moonring.native.collectives"
local comm = require "moonring.native.comm"
local errors = require "moonring.base.errors"
local objectives = require "moonring.native.objectives"
local ops = require("moonring.native.operators").ops
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"

---@class moonring.serve.stream_scores
local stream_scores = {}

--- Scores of a prompt. Lists are by token; before `first` they have NaN or false.
---@class moonring.serve.Scores
---@field first integer the first scored token, from 1; #ids + 1 if none is
---@field log_probs number[] NaN for a token that is not scored, as the first of a prompt
---@field top? (moonring.TopTokens | false)[] the likeliest ids, likeliest first
--- `targets`: log-probs of the requested targets, by token, from the second; 0 where there is none.
---@field targets? number[][]

-- The first token of an item that is scored.
local function first_scored(item)
  local last = item.scores.last or #item.ids
  return math.max(2, #item.ids - last + 1)
end

--- The prompts of a pack as one stream, with labels where tokens are scored.
---@param items moonring.serve.Item[]
---@param pack integer[] their numbers
---@return moonring.Sequence
function stream_scores.sequence(items, pack)
  local documents, labels = {}, {}
  for d, i in ipairs(pack) do
    local item = items[i]
    documents[d], labels[d] = item.ids, {}
    local first = first_scored(item)
    for t, id in ipairs(item.ids) do labels[d][t] = t >= first and id or -100 end
  end
  return comm.sequence { documents = documents, labels = labels }
end

-- The largest number of likeliest ids and of requested targets in a pack.
local function widths_of(items, pack)
  local top, targets = 0, 0
  for _, i in ipairs(pack) do
    local scores = items[i].scores
    top = math.max(top, scores.top or 0)
    targets = math.max(targets, scores.targets and scores.targets[1] and #scores.targets[1] or 0)
  end
  return top, targets
end

-- The requested targets of a pack: int64 [T, width], -1 where there is none.
local function requested_targets(items, pack, width)
  local rows = {}
  for _, i in ipairs(pack) do
    local targets = items[i].scores.targets
    for t = 1, #items[i].ids do
      local given, row = targets and targets[t] or {}, {}
      for k = 1, width do row[k] = given[k] or -1 end
      rows[#rows + 1] = row
    end
  end
  return tensor.tensor(rows, "int64")
end

-- One number (or row of numbers) for each token of the stream, on every rank of the sp group.
local function whole(service, values, layout)
  if service.mesh:sp_size() == 1 then return values:tolist() end
  return collectives.gather_stream(values, layout, service.mesh):tolist()
end

-- The log-probs of a pack. Returns a list for each token of the stream, with the log-probs of the
-- next token, of the `top` likeliest ids and of the requested targets, in this order; and a list of
-- the likeliest ids (nil if `top` is 0). One call of log_prob computes all of them, so that an id
-- has the same number in all lists.
local function log_probs_of(service, model, hidden, targets, layout, top, requested)
  local head, how = model:head(), { dtype = model:matmul_dtype() }
  local columns, ids = { targets:unsqueeze(1) }, nil
  if top > 0 then
    ids = objectives.top_log_probs(hidden, head, targets, top, how)
    columns[#columns + 1] = ids
  end
  if requested then
    columns[#columns + 1] = layout:cut(requested, service.mesh:sp_rank())
  end
  local log_probs = objectives.log_prob(hidden, head, ops.cat(columns, 1), how)
  return whole(service, log_probs, layout), ids and whole(service, ids, layout)
end

-- Numbers `from` + 1 to `from` + `count` of a list.
local function part(list, from, count)
  local numbers = {}
  for k = 1, count do numbers[k] = list[from + k] end
  return numbers
end

-- The scores of one prompt from those of the stream, in which its first token is row `offset` + 1.
-- `top`: the number of likeliest ids in the stream's lists.
local function scores_of(item, offset, log_probs, ids, top)
  local first, count = first_scored(item), item.scores.top or 0
  local targets = item.scores.targets
  local scores = { first = first, log_probs = {}, top = count > 0 and {} or nil,
    targets = targets and { {} } }
  for t = 1, #item.ids do
    local row = log_probs[offset + t - 1] -- of the token before
    local scored = t >= first
    if scored and row[1] ~= row[1] then
      errors.raise("FAILED_PRECONDITION", "the log-probs of these weights are not finite")
    end
    scores.log_probs[t] = scored and row[1] or 0 / 0
    if count > 0 then
      scores.top[t] = scored and { ids = part(ids[offset + t - 1], 0, count),
        log_probs = part(row, 1, count) }
    end
    if targets and t > 1 then scores.targets[t] = part(row, 1 + top, #targets[1]) end
  end
  return scores
end

--- The scores of a pack's items, from their hidden states. Collective over the sp group.
---@param service moonring.Service
---@param model moonring.Model
---@param items moonring.serve.Item[]
---@param pack integer[]
---@param hidden moonring.Tensor [T_local, D]
---@param targets moonring.Tensor int64 [T_local]
---@param layout moonring.Layout
---@return { item: integer, scores: moonring.serve.Scores }[]
function stream_scores.of(service, model, items, pack, hidden, targets, layout)
  local top, width = widths_of(items, pack)
  local log_probs, top_ids = log_probs_of(service, model, hidden, targets, layout, top,
    width > 0 and requested_targets(items, pack, width) or nil)
  local made, offset = {}, 0
  for d, i in ipairs(pack) do
    made[d] = { item = i, scores = scores_of(items[i], offset, log_probs, top_ids, top) }
    offset = offset + #items[i].ids
  end
  return made
end

local function fill(list, otherwise)
  for i, number in ipairs(list) do
    if number == system.null then list[i] = otherwise end
  end
end

--- Puts back what JSON cannot hold: NaN where a token was not scored, and infinities.
---@param made { scores: moonring.serve.Scores }[]
function stream_scores.restore(made)
  for _, each in ipairs(made) do
    local scores = each.scores
    fill(scores.log_probs, -math.huge)
    for t = 1, math.min(scores.first - 1, #scores.log_probs) do scores.log_probs[t] = 0 / 0 end
    for _, top in ipairs(scores.top or {}) do
      if top then fill(top.log_probs, -math.huge) end
    end
    for _, row in ipairs(scores.targets or {}) do fill(row, -math.huge) end
  end
end

return stream_scores
