--- Generates answers and scores prompts for the requests of a service. Requests of all clients run
-- together: one forward decodes a token of each answer, whatever its settings. A request's answers
-- depend only on its weights, prompts, key and options, not on other requests.
--
-- Requests come from rank 0, which sends them to the other ranks in rounds: all requests for the
-- same weights. In a round prompts are scored first (scoring.lua), and then answers are decoded
-- (decoding.lua), while further requests for the same weights may join.
local checks = require "moonring.serve.generation_checks"
local decoding = require "moonring.serve.decoding"
local errors = require "moonring.base.errors"
local refusals = require "moonring.serve.refusals"
local results = require "moonring.serve.generation_results"
local scoring = require "moonring.serve.scoring"
local system = require "moonring.native.system"

---@class moonring.serve.generation
local generation = {}

local OPEN_SECONDS = 10 -- how long further requests may join, if the first ones end earlier

--- How answers are sampled, as in Model:rollout.
---@class moonring.serve.Sampling
---@field max_new_tokens? integer absent: to the end of the model's context
---@field temperature? number absent: 1; 0: greedy
---@field top_k? integer
---@field top_p? number
---@field min_p? number
---@field repetition_penalty? number
---@field stop_ids? integer[]
---@field stop_texts? string[] an answer ends with the token that completes one of them

---@class moonring.serve.Request
---@field weights moonring.serve.Weights
---@field prompts integer[][]
---@field answers? integer answers to each prompt; default 1
---@field key integer seeds the draws: in [0, 2^53)
---@field options moonring.serve.Sampling
--- `prompt_scores` asks for log-probs of prompt tokens: of the `last` ones, or (absent) of all but
--- the first. `top`: also of this many likeliest ids at each position. `targets`: also of further
--- ids: for each prompt, a list for each token but the first, of K ids each; -1: none.
---@field prompt_scores? { top: integer?, last: integer?, targets: integer[][][]? }
---@field top? integer likeliest ids of each new token
--- `on_token` is called with each new token as it comes: the numbers of its prompt and answer, the
--- id, its log-prob, the likeliest ids. If it returns false (the client has left), the answer ends.
---@field on_token? moonring.OnToken
---@field done fun(answers: moonring.RolloutAnswer[][], scores: moonring.serve.Scores[]?)
---@field fail? fun(why: any) called in place of `done`; absent: Queue:run raises the error

--- Requests that wait or run. Functions of requests are called on rank 0 only.
---@class moonring.serve.Queue
---@field service moonring.Service
---@field weights moonring.serve.Weights[] all that requests have named, the same on each rank
---@field waiting moonring.serve.Pending[] on rank 0
---@field first integer on rank 0: requests that were added before `run` and have not ended
---@field running? boolean whether `run` runs
---@field began? number when it began to run, in seconds of system.clock
---@field failure? any an error of a request without `fail`, which `run` raises
local Queue = {}
Queue.__index = Queue

--- An empty queue.
---@param service moonring.Service
---@return moonring.serve.Queue
function generation.new(service)
  return setmetatable({ service = service, weights = {}, waiting = {}, first = 0 }, Queue)
end

--- The number of these weights among those of the queue's requests; nil if no request named them.
--- Requests that join while others run must name weights that the queue knows: the other ranks do
--- not see such a request before it runs.
---@param weights moonring.serve.Weights
---@return integer?
function Queue:knows(weights)
  for i, each in ipairs(self.weights) do
    if each.model == weights.model then return i end
  end
end

--- Makes weights known to the queue. Before `run` every rank names the same weights, in one order.
---@param weights moonring.serve.Weights
---@return integer number
function Queue:use(weights)
  local known = self:knows(weights)
  if known then return known end
  if self.running then
    errors.raise("INTERNAL", "generation: a request joined with weights that no other named")
  end
  self.weights[#self.weights + 1] = weights
  return #self.weights
end

--- Adds a request. Before `run` every rank adds the same requests; while it runs, only rank 0 does.
--- Errors: INVALID_ARGUMENT for a request that the model cannot answer.
---@param request moonring.serve.Request
function Queue:add(request)
  checks.request(request)
  local known = self:use(request.weights)
  if self.service.mesh:rank() ~= 0 then return end
  local pending = results.pending(request, known, self)
  self.waiting[#self.waiting + 1] = pending
  if not self.running then
    pending.is_first, self.first = true, self.first + 1
  end
end

-- Takes the waiting requests for which `fits` is true.
local function take(self, fits)
  local taken, rest = {}, {}
  for _, pending in ipairs(self.waiting) do
    local into = fits(pending) and taken or rest
    into[#into + 1] = pending
  end
  self.waiting = rest
  return taken
end

-- The next round, on rank 0: the prompts of all requests for the weights of the first one.
local function next_round(self)
  local first = self.waiting[1]
  if not first then return nil end
  local round = { weights = first.weights, items = {} }
  local owners = {}
  for _, pending in ipairs(take(self, function(p) return p.weights == first.weights end)) do
    results.add_items(pending, round.items, owners)
  end
  return round, owners
end

-- Makes the receiver of a round's results, on rank 0.
local function receiver(self, round, owners, more)
  local door = self.service.door
  local receive = results.receiver(owners, function()
    return door ~= nil and door:ended() ~= 0
  end)
  -- Prompts of requests that can join the running ones: of the same weights, without scores, and
  -- decoded in the same way.
  function receive.arrivals(kind)
    if not more then return {} end
    if self.first > 0 or system.clock() - self.began < OPEN_SECONDS then more() end
    local from = #round.items + 1
    local joins = take(self, function(p)
      return p.weights == round.weights and not p.request.prompt_scores
        and decoding.all_of_kind(self.service, p.request.prompts, kind)
    end)
    for _, pending in ipairs(joins) do results.add_items(pending, round.items, owners) end
    local numbers = {}
    for i = from, #round.items do numbers[#numbers + 1] = i end
    return numbers
  end
  return receive
end

local function play(self, round, owners, more)
  local service, weights = self.service, self.weights[round.weights]
  local receive = owners and receiver(self, round, owners, more)
  local ok, why = pcall(function()
    scoring.run(service, weights, round.items, receive)
    decoding.run(service, weights, round.items, receive)
  end)
  if not ok and refusals.parts_ranks(service, why) then error(why, 0) end
  if owners then results.fail_rest(owners, why) end
end

--- Runs all requests, and calls `done` or `fail` of each. Collective over all ranks.
---@param more? fun() called between tokens on rank 0; may add requests, which then run beside the
---   others. It is no longer called once the first requests have ended and some seconds are over,
---   so that other work of the service gets its turn
function Queue:run(more)
  local mesh = self.service.mesh
  self.running, self.began = true, system.clock()
  while true do
    local round, owners
    if mesh:rank() == 0 then round, owners = next_round(self) end
    if mesh:size() > 1 then
      local text = mesh:gather(round and system.json_encode(round) or "")[1]
      round = round or text ~= "" and system.json_decode(text, "generation") or nil
    end
    if not round then break end
    play(self, round, owners, more)
  end
  self.running = false
  local failure = self.failure
  self.failure = nil
  if failure then error(failure, 0) end
end

return generation
