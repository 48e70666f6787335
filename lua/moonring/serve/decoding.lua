--- Decodes the answers of a generation's round.
--
-- Short prompts are divided over all ranks: each rank decodes its answers alone, so their bits do
-- not depend on the number of ranks. Rank 0 decodes those whose tokens are streamed to the client.
-- The ranks of the first sp group decode long prompts together, each with the attention keys of its
-- own tokens. `rollout_spread_length` is the least length of a long prompt.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.serve.decoding
local decoding = {}

local ALL = 2 ^ 40 -- more tokens than any context, at whose end an answer ends

local function kind_of(service, ids)
  local spread = service.mesh:sp_size() > 1 and #ids >= service.config.rollout_spread_length
  return spread and "long" or "short"
end

--- Whether all of these prompts are decoded in one way.
---@param service moonring.Service
---@param prompts integer[][]
---@param kind "short" | "long"
---@return boolean
function decoding.all_of_kind(service, prompts, kind)
  for _, ids in ipairs(prompts) do
    if kind_of(service, ids) ~= kind then return false end
  end
  return true
end

--- An item as a prompt of Model:rollout.
---@param item moonring.serve.Item
---@return moonring.RolloutPrompt
function decoding.prompt(item)
  local o = item.options
  return { ids = item.ids, key = item.key, seed = item.seed, answers = item.answers,
    top = item.top, max_new_tokens = o.max_new_tokens or ALL, temperature = o.temperature or 1,
    top_k = o.top_k, top_p = o.top_p, min_p = o.min_p, repetition_penalty = o.repetition_penalty,
    stop_ids = o.stop_ids, stop_texts = o.stop_texts }
end

-- Decodes items, given by their numbers, with one call of the engine. `receive` gets tokens and
-- answers, and may bring further items of the kind.
local function decode(service, weights, items, numbers, receive, kind)
  local prompts, of = {}, {}
  local function add(i)
    of[#of + 1], prompts[#prompts + 1] = i, decoding.prompt(items[i])
  end
  for _, i in ipairs(numbers) do add(i) end
  weights.model:rollout(prompts, {
    sequences = service.config.rollout_sequences, tokenizer = weights.base.tokenizer,
    attention = kind == "long" and service.attention or nil,
    arrivals = function()
      prompts = {}
      for _, i in ipairs(receive.arrivals(kind)) do add(i) end
      return prompts[1] and prompts
    end,
    on_token = function(p, answer, id, log_prob, top)
      return receive.token(of[p], answer, id, log_prob, top)
    end,
    on_answer = function(p, answer, result) receive.answer(of[p], answer, result) end,
  })
end

-- The numbers of the items that each rank decodes: streams by rank 0, and others by the rank that
-- has the fewest answers.
local function divide(items, numbers, ranks)
  local lanes, load = {}, {}
  for r = 1, ranks do lanes[r], load[r] = {}, 0 end
  local function give(r, i)
    lanes[r][#lanes[r] + 1], load[r] = i, load[r] + items[i].answers
  end
  for _, i in ipairs(numbers) do
    if items[i].streams then give(1, i) end
  end
  for _, i in ipairs(numbers) do
    if not items[i].streams then
      local least = 1
      for r = 2, ranks do
        if load[r] < load[least] then least = r end
      end
      give(least, i)
    end
  end
  return lanes
end

-- A receiver that keeps results for rank 0.
local function keeper()
  local kept = {}
  return {
    arrivals = function() return {} end,
    token = function() return true end,
    answer = function(item, answer, result)
      kept[#kept + 1] = { item = item, answer = answer, result = result }
    end,
  }, kept
end

-- Passes the answers of another rank to `receive`. `text`: what that rank gathered in decode_short;
-- `numbers`: the items that it decoded, all of which fail if it failed.
local function deliver(text, numbers, receive)
  local made = system.json_decode(text, "answers")
  for _, each in ipairs(made.kept) do receive.answer(each.item, each.answer, each.result) end
  if not made.failure then return end
  local why = errors.decode(made.failure)
  for _, i in ipairs(numbers) do receive.failure(i, why) end
end

local function decode_short(service, weights, items, numbers, receive)
  local mesh = service.mesh
  local lanes = divide(items, numbers, mesh:size())
  local mine, kept = receive, {}
  if not receive then mine, kept = keeper() end
  local ok, why = true, nil
  if receive or lanes[mesh:rank() + 1][1] then
    ok, why = pcall(decode, service, weights, items, lanes[mesh:rank() + 1], mine, "short")
  end
  if mesh:size() > 1 then
    local texts = mesh:gather(receive and "" or system.json_encode { kept = kept,
      failure = not ok and errors.encode(why) or nil })
    for r = 2, receive and mesh:size() or 1 do deliver(texts[r], lanes[r], receive) end
  end
  if receive and not ok then error(why, 0) end
end

--- Decodes the answers of all items that have none yet. `receive` gets them, on rank 0. Collective
--- over all ranks.
---@param service moonring.Service
---@param weights moonring.serve.Weights
---@param items moonring.serve.Item[] an item with `answered` has its answers
---@param receive? moonring.serve.Receiver nil on other ranks
function decoding.run(service, weights, items, receive)
  local short, long = {}, {}
  for i, item in ipairs(items) do
    local list = kind_of(service, item.ids) == "long" and long or short
    if not item.answered then list[#list + 1] = i end
  end
  if short[1] then decode_short(service, weights, items, short, receive) end
  if long[1] and service.mesh:dp_rank() == 0 then
    decode(service, weights, items, long, receive or keeper(), "long")
  end
end

return decoding
