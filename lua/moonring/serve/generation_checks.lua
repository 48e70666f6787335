--- Checks a request for answers before it runs, so that it cannot fail others of its round.
local errors = require "moonring.base.errors"

---@class moonring.serve.generation_checks
local checks = {}

local function is_whole(x, least, most)
  return type(x) == "number" and x % 1 == 0 and x >= least and x <= most
end

local function number(value, name, least, most, words)
  if value == nil then return end
  if type(value) ~= "number" or not (value >= least and value <= most) then
    errors.fail(name, ": expected ", words, ", got ", tostring(value))
  end
end

local function whole(value, name, least, words)
  if value ~= nil and not is_whole(value, least, 2 ^ 53) then
    errors.fail(name, ": expected ", words, ", got ", tostring(value))
  end
end

local function top(value, vocabulary)
  if value ~= nil and not is_whole(value, 0, vocabulary) then
    errors.fail("top log-probs: expected 0 to the vocabulary's ", vocabulary, ", got ",
      tostring(value))
  end
end

local function sampling(o)
  whole(o.max_new_tokens, "max_tokens", 0, "a whole number, 0 or more")
  whole(o.top_k, "top_k", 0, "a whole number, 0 (all) or more")
  number(o.temperature, "temperature", 0, 1e6, "a number, 0 (greedy) or more")
  number(o.top_p, "top_p", 1e-300, 1, "a number above 0 and at most 1")
  number(o.min_p, "min_p", 0, 1, "a number from 0 to 1")
  number(o.repetition_penalty, "repetition_penalty", 1e-300, 1e300, "a number above 0")
  for _, id in ipairs(o.stop_ids or {}) do
    whole(id, "stop", 0, "token ids: whole numbers, 0 or more")
  end
  for _, text in ipairs(o.stop_texts or {}) do
    if type(text) ~= "string" or text == "" then
      errors.fail("stop: expected texts of at least one character, got '", tostring(text), "'")
    end
  end
end

local function prompt(ids, where, vocabulary, context)
  if #ids == 0 then errors.fail(where, ": no tokens, expected at least one") end
  if #ids > context then
    errors.fail(where, ": ", #ids, " tokens; the model's context has ", context)
  end
  for t, id in ipairs(ids) do
    if not is_whole(id, 0, vocabulary - 1) then
      errors.fail(where, ": token ", t - 1, " is ", tostring(id),
        "; the vocabulary has the ids 0 to ", vocabulary - 1)
    end
  end
end

local function targets(list, ids, where, vocabulary)
  if #list ~= #ids - 1 then
    errors.fail(where, ": targets of ", #list, " positions, expected ", #ids - 1, ": one less ",
      "than the prompt's tokens")
  end
  for t, row in ipairs(list) do
    if #row ~= #list[1] then
      errors.fail(where, ": ", #row, " targets of position ", t, ", ", #list[1], " of the first")
    end
    for _, id in ipairs(row) do
      if not is_whole(id, -1, vocabulary - 1) then
        errors.fail(where, ": target ", tostring(id), " of position ", t, "; expected -1 (none) ",
          "or an id from 0 to ", vocabulary - 1)
      end
    end
  end
end

--- Errors: INVALID_ARGUMENT, naming the field.
---@param request moonring.serve.Request
function checks.request(request)
  local base = request.weights.base
  local vocabulary = base.checkpoint:vocab_size()
  local context = base.checkpoint:max_position_embeddings()
  if #request.prompts == 0 then errors.fail "prompt: no prompt, expected at least one" end
  local scores = request.prompt_scores
  for p, ids in ipairs(request.prompts) do
    local where = #request.prompts == 1 and "prompt" or "prompt " .. p - 1
    prompt(ids, where, vocabulary, context)
    if scores and scores.targets then targets(scores.targets[p], ids, where, vocabulary) end
  end
  whole(request.answers, "the number of answers", 1, "a whole number, 1 or more")
  top(request.top, vocabulary)
  if not is_whole(request.key, 0, 2 ^ 53 - 1) then
    errors.fail("key: expected a whole number from 0 to 2^53 - 1, got ", tostring(request.key))
  end
  if scores then
    whole(scores.last, "the number of scored tokens", 0, "a whole number, 0 or more")
    top(scores.top, vocabulary)
  end
  sampling(request.options)
  if request.options.stop_texts and request.options.stop_texts[1] then
    if not base.tokenizer then
      errors.fail("stop: a text; ", base.name, " has no tokenizer here: expected token ids")
    end
  end
end

return checks
