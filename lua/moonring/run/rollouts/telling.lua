--- Reports on a rollout: metrics under TRL's names, and completions in a file.
local masks = require "moonring.run.rollouts.completion_mask"
local system = require "moonring.native.system"

---@class moonring.rollout_telling
local telling = {}

local function spread(numbers)
  local sum, least, most = 0, math.huge, -math.huge
  for _, each in ipairs(numbers) do
    sum, least, most = sum + each, math.min(least, each), math.max(most, each)
  end
  return sum, least, most
end

--- Metrics of the completions' lengths: name -> { sum, count }. A length is the number of sampled
--- tokens, as in TRL.
---@param list moonring.Completion[]
---@return table<string, number[]>
function telling.lengths(list)
  local all, ended, cut, given, turns = {}, {}, 0, 0, nil
  for i, each in ipairs(list) do
    all[i] = masks.sampled(each)
    given, turns = given + #each.ids - all[i], each.turns and (turns or 0) + each.turns or turns
    if each.stopped then ended[#ended + 1] = all[i] else cut = cut + 1 end
  end
  local metrics = { ["completions/clipped_ratio"] = { cut, #list } }
  local function add(words, numbers)
    if #numbers == 0 then return end
    local sum, least, most = spread(numbers)
    metrics["completions/mean_" .. words] = { sum, #numbers }
    metrics["completions/min_" .. words] = { least, 1 }
    metrics["completions/max_" .. words] = { most, 1 }
  end
  if turns then
    metrics["completions/mean_turns"] = { turns, #list }
    metrics["completions/mean_given_length"] = { given, #list }
  end
  add("length", all)
  add("terminated_length", ended)
  return metrics
end

--- Logs a warning, once per run, if there are completions for which no reward function has a value.
---@param run moonring.Run
---@param rollout moonring.Rollout
---@param unrewarded integer[] indices of completions, from 1
function telling.unrewarded(run, rollout, unrewarded)
  if #unrewarded == 0 or run.log.told_unrewarded then return end
  run.log.told_unrewarded = true
  local first = rollout.prompts[rollout.list[unrewarded[1]].prompt]
  run.log:say(("step %d: no reward function has a number for %d of %d completions (the first: of "
    .. "example %d); their reward is 0. This is said once"):format(run.step + 1, #unrewarded,
    #rollout.list, first.example))
end

-- Converts a completion to a table for a JSON line.
local function line_of(run, generation, prompts, each)
  local prompt = prompts[each.prompt]
  local parts = each.mask and masks.parts(each)
  for i, part in ipairs(parts or {}) do
    local text = run.tokenizer:decode(part.ids, true)
    parts[i] = part.sampled and { sampled = text } or { given = text }
  end
  return { rollout = generation, step = run.step + 1, example = prompt.example,
    prompt = run.tokenizer:decode(prompt.ids, true), completion = each.text, tokens = #each.ids,
    stopped = each.stopped, rewards = each.rewards, reward = each.reward,
    advantage = each.advantage, turns = each.turns, parts = parts or nil }
end

--- Writes a rollout's completions and rewards as lines of completions/NUMBER.jsonl, and logs the
--- first few. Those of the last rollout are also shown in the model card. On rank 0.
---@param run moonring.Run
---@param generation integer the rollout's number, from 0
---@param prompts moonring.RolloutRow[]
---@param list moonring.Completion[]
function telling.completions(run, generation, prompts, list)
  local c, lines, shown = run.config, {}, {}
  if not c.log_completions or run.mesh:rank() ~= 0 then return end
  for i, each in ipairs(list) do
    local line = line_of(run, generation, prompts, each)
    lines[i], shown[i] = system.json_encode(line) .. "\n", line
    if i <= (c.num_completions_to_print or 0) then
      run.log:say(("step %d, reward %.4g: %s"):format(line.step, line.reward or 0,
        (line.completion:gsub("%s+", " "))))
    end
  end
  run.log.completions = shown
  local folder = c.output_dir .. "/completions"
  run.log:beside(function()
    system.make_folder(folder)
    system.write(("%s/%05d.jsonl"):format(folder, generation), table.concat(lines))
  end)
end

return telling
