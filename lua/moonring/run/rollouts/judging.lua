--- Scores completions. The first rank of each sp group calls the reward functions for the
-- completions of its prompts. All ranks receive all rewards; if a function fails, all raise the
-- same error.
local errors = require "moonring.base.errors"
local prompt_forms = require "moonring.rewards.prompt_forms"
local system = require "moonring.native.system"

---@class moonring.judging
local judging = {}

-- Converts a list of rows to columns: name -> list of values, one per completion.
local function columns_of(rows)
  local columns = {}
  for i, row in ipairs(rows) do
    for name, value in pairs(row) do
      columns[name] = columns[name] or {}
      columns[name][i] = value
    end
  end
  return columns
end

--- Makes the batch that reward functions receive.
---@param tokenizer moonring.Tokenizer
---@param prompts moonring.RolloutRow[]
---@param list moonring.Completion[]
---@return moonring.RewardBatch
function judging.batch(tokenizer, prompts, list)
  local batch = { prompts = {}, completions = {}, prompt_ids = {}, completion_ids = {},
    stopped = {}, rows = {} }
  local rows, texts, messages, listed, are_listed = {}, {}, {}, {}, false
  for i, each in ipairs(list) do
    local prompt = prompts[each.prompt]
    texts[prompt] = texts[prompt] or tokenizer:decode(prompt.ids, true)
    rows[i], batch.prompts[i], batch.prompt_ids[i] = prompt.columns, texts[prompt], prompt.ids
    batch.completions[i], batch.completion_ids[i] = each.text, each.ids
    batch.stopped[i], batch.rows[i] = each.stopped, prompt.example
    if each.mask then
      batch.completion_masks = batch.completion_masks or {}
      batch.completion_masks[i] = each.mask
    end
    messages[prompt] = messages[prompt] or prompt_forms.messages(prompt.columns) or false
    listed[i], are_listed = messages[prompt], are_listed or messages[prompt] ~= false
  end
  batch.messages = are_listed and listed or nil
  batch.columns = columns_of(rows)
  return batch
end

-- Scores this rank's completions. Returns the rewards by function and completion, or nil and the
-- error.
local function score(run, prompts, mine)
  if #mine == 0 then return {} end
  local given, why = run.rewards:score(judging.batch(run.tokenizer, prompts, mine))
  if not given then return nil, why end
  local scores = {}
  for f, each in ipairs(given) do
    scores[f] = { name = each.name, values = {} }
    -- A missing value becomes null, because a JSON list cannot have gaps.
    for i = 1, #mine do scores[f].values[i] = each.values[i] or system.null end
  end
  return scores
end

--- Scores completions and stores the results in their field `rewards`. Collective over all ranks.
--- Errors: those of the reward functions, on every rank.
---@param run moonring.Run
---@param prompts moonring.RolloutRow[]
---@param groups moonring.Completion[][] by prompt
function judging.judge(run, prompts, groups)
  local mesh = run.mesh
  local function of_rank(rank)
    local list = {}
    for p = rank + 1, #groups, mesh:dp_size() do
      for _, each in ipairs(groups[p]) do list[#list + 1] = each end
    end
    return list
  end
  local result = ""
  if mesh:sp_rank() == 0 then
    local scores, why = score(run, prompts, of_rank(mesh:dp_rank()))
    result = system.json_encode { rank = mesh:dp_rank(), scores = scores,
      failure = why and errors.encode(why) }
  end
  for _, text in ipairs(mesh:gather(result)) do
    local found = text ~= "" and system.json_decode(text, "rewards") or {}
    if found.failure then error(errors.decode(found.failure), 0) end
    local list = found.rank and of_rank(found.rank) or {}
    for _, each in ipairs(list) do each.rewards = {} end
    for _, of in ipairs(found.scores or {}) do
      for i, each in ipairs(list) do
        local value = of.values[i]
        if value ~= system.null then each.rewards[of.name] = value end
      end
    end
  end
end

return judging
