--- Requests of a generation on rank 0: makes items of a round from their prompts, and collects the
-- results of the items until a request has all of its results.
local errors = require "moonring.base.errors"

---@class moonring.serve.generation_results
local results = {}

--- A request that waits or runs.
---@class moonring.serve.Pending
---@field request moonring.serve.Request
---@field weights integer their index in Queue.weights
---@field queue moonring.serve.Queue
---@field answers moonring.RolloutAnswer[][] so far
---@field scores? moonring.serve.Scores[] so far
---@field left integer answers and scores that are missing; 0: settled
---@field is_first? boolean whether it was added before the queue ran

--- A prompt of a round, the same on every rank.
---@class moonring.serve.Item
---@field ids integer[]
---@field key integer
---@field seed integer distinguishes the prompts of a request
---@field answers integer
---@field top integer
---@field options moonring.serve.Sampling
---@field scores? { top: integer?, last: integer?, targets: integer[][]? }
---@field streams boolean whether its tokens are wanted as they come

--- A request that waits, with what it has got so far.
---@param request moonring.serve.Request
---@param weights integer
---@param queue moonring.serve.Queue
---@return moonring.serve.Pending
function results.pending(request, weights, queue)
  local self = { request = request, weights = weights, queue = queue, answers = {},
    left = #request.prompts * ((request.answers or 1) + (request.prompt_scores and 1 or 0)),
    scores = request.prompt_scores and {} or nil }
  for p = 1, #request.prompts do self.answers[p] = {} end
  return self
end

--- Appends the prompts of a request to the items of a round. `owners` gets for each item its
--- request and the number of its prompt there.
---@param pending moonring.serve.Pending
---@param items moonring.serve.Item[]
---@param owners { pending: moonring.serve.Pending, prompt: integer }[]
function results.add_items(pending, items, owners)
  local request = pending.request
  local scores = request.prompt_scores
  for p, ids in ipairs(request.prompts) do
    items[#items + 1] = { ids = ids, key = request.key, seed = p - 1,
      answers = request.answers or 1, top = request.top or 0, options = request.options,
      scores = scores and { top = scores.top, last = scores.last,
        targets = scores.targets and scores.targets[p] },
      streams = request.on_token ~= nil }
    owners[#items] = { pending = pending, prompt = p }
  end
end

local function end_request(pending, why)
  if pending.left == 0 then return end
  pending.left = 0
  if pending.is_first then pending.queue.first = pending.queue.first - 1 end
  local request = pending.request
  local ok, other = true, nil
  if not why then ok, other = pcall(request.done, pending.answers, pending.scores) end
  if ok and not why then return end
  why = why or other
  if request.fail then request.fail(why) else pending.queue.failure = why end
end

-- Counts a result that has come; the last one ends the request.
local function settle(pending)
  if pending.left == 0 then return end
  if pending.left == 1 then end_request(pending) else pending.left = pending.left - 1 end
end

--- Receives the results of a round's items, by their numbers.
---@param owners { pending: moonring.serve.Pending, prompt: integer }[]
---@param is_ending fun(): boolean whether the service ends: requests then get no result, so that
---   those of the journal run again after the next start
---@return moonring.serve.Receiver
function results.receiver(owners, is_ending)
  ---@class moonring.serve.Receiver
  ---@field arrivals fun(kind: "short" | "long"): integer[]
  local receive = {}

  --- Takes a token. Returns false if the answer is to end: its request has failed, its client has
  --- left, or the service ends.
  function receive.token(item, answer, id, log_prob, top)
    local pending, prompt = owners[item].pending, owners[item].prompt
    if pending.left > 0 and is_ending() then pending.left = 0 end
    if pending.left == 0 then return false end -- failed, or dropped at the end
    local on_token = pending.request.on_token
    if not on_token then return true end
    local ok, stays = pcall(on_token, prompt, answer, id, log_prob, top)
    if not ok then end_request(pending, stays) end
    return ok and stays ~= false
  end
  function receive.answer(item, answer, result)
    local pending, prompt = owners[item].pending, owners[item].prompt
    pending.answers[prompt][answer] = result
    settle(pending)
  end
  function receive.scores(item, scores)
    local pending, prompt = owners[item].pending, owners[item].prompt
    pending.scores[prompt] = scores
    settle(pending)
  end
  function receive.failure(item, why) end_request(owners[item].pending, why) end
  return receive
end

--- Fails the requests of a round that have not got all results.
---@param owners { pending: moonring.serve.Pending }[]
---@param why any
function results.fail_rest(owners, why)
  for _, owner in pairs(owners) do
    end_request(owner.pending, why or errors.new("INTERNAL", "generation: an answer is missing"))
  end
end

return results
