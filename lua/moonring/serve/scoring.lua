--- Log-probs of prompt tokens, from forwards over many prompts packed one after another, by the
-- functions that training uses: objectives.log_prob over the run's attention. If a request also
-- wants one new token, it is chosen from the same forward.
local autograd = require "moonring.native.autograd"
local decoding = require "moonring.serve.decoding"
local errors = require "moonring.base.errors"
local objectives = require "moonring.native.objectives"
local stream_scores = require "moonring.serve.stream_scores"
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"

---@class moonring.serve.scoring
local scoring = {}

local PACK_TOKENS = 2048 -- tokens of a forward if micro_batch_tokens is absent; a longer prompt is
-- computed alone

local LOGIT_ROWS = 16 -- rows of logits in memory at a time, of items that want one new token

-- Groups items into packs of at most `most` tokens. Returns lists of their numbers.
local function packs_of(items, most)
  local packs, size = {}, math.huge
  for i, item in ipairs(items) do
    if item.scores then
      if size + #item.ids > most then packs[#packs + 1], size = {}, 0 end
      local pack = packs[#packs]
      pack[#pack + 1], size = i, size + #item.ids
    end
  end
  return packs
end

-- The answers of prompts: one new token each, from the hidden states [T_local, D] in some rows.
local function choose(weights, hidden, rows, prompts)
  local model = weights.model
  local vocabulary = model:head():weight():shape()[1]
  local logits = objectives.logits(hidden:index_select(0, tensor.tensor(rows, "int64")),
    model:head(), vocabulary, { dtype = model:matmul_dtype() })
  return model:first_tokens(logits, prompts, { tokenizer = weights.base.tokenizer })
end

-- The answers of items that want one new token, chosen from the hidden states after their prompts.
-- Each rank chooses for the prompts whose last token it has. Returns { place, answers }, with the
-- place of the prompt in the pack.
local function first_tokens(service, weights, items, pack, hidden, layout)
  local rows, prompts, places, offset = {}, {}, {}, 0
  local here = layout:indices()[service.mesh:sp_rank() + 1]
  for place, i in ipairs(pack) do
    offset = offset + #items[i].ids
    local at = items[i].answered and here:eq(offset - 1):nonzero():tolist()[1]
    if at then
      rows[#rows + 1], prompts[#prompts + 1], places[#places + 1] = at[1],
        decoding.prompt(items[i]), place
    end
  end
  local made = {}
  for from = 1, #rows, LOGIT_ROWS do
    local some, of = {}, {}
    for k = from, math.min(from + LOGIT_ROWS - 1, #rows) do
      some[#some + 1], of[#of + 1] = rows[k], prompts[k]
    end
    local chosen = tensor.scope(choose, weights, hidden, some, of)
    for k, answers in ipairs(chosen) do
      made[#made + 1] = { place = places[from + k - 1], answers = answers }
    end
  end
  return made
end

-- Scores a pack. Returns { item, scores, answers } of its items.
local function score(service, weights, items, pack)
  local sequence = stream_scores.sequence(items, pack)
  local ids, positions, targets, plan, layout = service.attention:cut(sequence)
  local hidden = weights.model:forward(ids, positions, plan)
  local made = stream_scores.of(service, weights.model, items, pack, hidden, targets, layout)
  local ok, chosen = pcall(first_tokens, service, weights, items, pack, hidden, layout)
  local texts = { ok and { made = chosen } or { failure = errors.encode(chosen) } }
  if service.mesh:sp_size() > 1 then
    texts = service.mesh:gather_sp(system.json_encode(texts[1]))
    for r, text in ipairs(texts) do texts[r] = system.json_decode(text, "first tokens") end
  end
  for _, of_rank in ipairs(texts) do
    if of_rank.failure then error(errors.decode(of_rank.failure), 0) end
    for _, each in ipairs(of_rank.made) do made[each.place].answers = each.answers end
  end
  return made
end

local function report(receive, made)
  for _, each in ipairs(made) do
    receive.scores(each.item, each.scores)
    for a, answer in ipairs(each.answers or {}) do
      receive.token(each.item, a, answer.ids[1], answer.log_probs[1], answer.top and answer.top[1])
      receive.answer(each.item, a, answer)
    end
  end
end

--- Scores the items that ask for it, and answers those of them that want one token: they get
--- `answered`. `receive` gets the results, on rank 0. Collective over all ranks.
---@param service moonring.Service
---@param weights moonring.serve.Weights
---@param items moonring.serve.Item[]
---@param receive? moonring.serve.Receiver nil on other ranks
function scoring.run(service, weights, items, receive)
  for _, item in ipairs(items) do
    item.answered = item.scores ~= nil and item.options.max_new_tokens == 1 or nil
  end
  local packs = packs_of(items, service.config.micro_batch_tokens or PACK_TOKENS)
  if not packs[1] then return end
  local mesh = service.mesh
  for p = 1, #packs, mesh:dp_size() do
    local pack = packs[p + mesh:dp_rank()]
    local ok, made = true, {}
    if pack then
      ok, made = pcall(tensor.scope, autograd.no_grad, score, service, weights, items, pack)
    end
    if mesh:dp_size() == 1 then
      if not ok then error(made, 0) end
      if receive then report(receive, made) end
    else
      scoring.gather(service, packs, p, ok, made, receive)
    end
  end
end

--- Hands rank 0 the scores that each sp group computed.
---@param service moonring.Service
---@param packs integer[][]
---@param first integer the number of the first sp group's pack
---@param ok boolean
---@param made table the scores, or the error
---@param receive? moonring.serve.Receiver
function scoring.gather(service, packs, first, ok, made, receive)
  local mesh = service.mesh
  local text = system.json_encode(ok and { made = made } or { failure = errors.encode(made) })
  local texts = mesh:gather(mesh:sp_rank() == 0 and text or "")
  if not receive then return end
  for group = 0, mesh:dp_size() - 1 do
    local of_group = system.json_decode(texts[group * mesh:sp_size() + 1], "scores")
    if of_group.failure then
      for _, i in ipairs(packs[first + group]) do
        receive.failure(i, errors.decode(of_group.failure))
      end
    else
      stream_scores.restore(of_group.made)
      report(receive, of_group.made)
    end
  end
end

return scoring
