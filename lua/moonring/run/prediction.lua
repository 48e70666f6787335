--- Generates answers to the prompts of a data set and compares each with the row's expected answer:
-- the keys predict_with_generate and do_predict, as in LLaMA-Factory. Each row is answered by
-- itself, with a seed that depends on the row, so the result is the same for any number of ranks.
local chat = require "moonring.run.chat"
local compute = require "moonring.choices.compute"
local config = require "moonring.config"
local configured_template = require "moonring.data.configured_template"
local data = require "moonring.data"
local journal_lines = require "moonring.report.journal_lines"
local objective = require "moonring.choices.objective"
local phases = require "moonring.report.phases"
local system = require "moonring.native.system"

---@class moonring.prediction
local prediction = {}

---@class moonring.Answer
---@field row integer from 0
---@field prompt string including its special tokens
---@field predict string
---@field label string
---@field scores table<string, number> bleu-4, rouge-1, rouge-2, rouge-l

-- The ids that end an answer, as in LLaMA-Factory: eos, the template's stop words, and all special
-- tokens for which the tokenizer's configuration names no role such as bos or pad.
local function stop_ids(template, tokenizer)
  local ids = template:stop_ids()
  for _, id in ipairs(tokenizer:more_special_ids()) do ids[#ids + 1] = id end
  return ids
end

-- Splits a row's token ids into the prompt and the answer.
local function parts(document)
  local prompt, label = {}, {}
  for i, id in ipairs(document.ids) do
    local list = document.labels[i] == -100 and prompt or label
    list[#list + 1] = id
  end
  return prompt, label
end

-- The ids of a label that a model could generate: those before the first stop id. Templates may
-- write a line break after the stop id; it is in the label, but never in an answer
-- (docs/predictions.md).
local function answered(label, stops)
  local list = {}
  for i, id in ipairs(label) do
    if stops[id] then break end
    list[i] = id
  end
  return list
end

local function answerer(run, dataset)
  local c, tokenizer = run.config, run.tokenizer
  local how, segmenter = chat.sampling(c, true), data.word_segmenter()
  how.stop_ids = stop_ids(data.template(configured_template.of(c), tokenizer, c.default_system),
    tokenizer)
  objective.refuse_inside(run.objective, "do_predict")
  how.around = run.objective and run.objective.around
  local stops = {}
  for _, id in ipairs(how.stop_ids) do stops[id] = true end
  return function(row)
    local prompt, label = parts(dataset:example(row)[1])
    if #prompt == 0 then
      config.fail("cutoff_len: ", c.cutoff_len, " leaves nothing of the prompt of example ", row)
    end
    how.seed = c.seed % 2 ^ 20 * 2 ^ 32 + row
    local ids = run.model:generate(prompt, how)
    local skips = c.skip_special_tokens
    return { row = row, prompt = tokenizer:decode(prompt), predict = tokenizer:decode(ids, skips),
      label = tokenizer:decode(label, skips),
      scores = segmenter:compare(tokenizer:decode(ids, true),
        tokenizer:decode(answered(label, stops), true)) }
  end
end

--- Answers each row's prompt, in the order of the rows. The rows are distributed over the ranks; if
--- ranks share the weights, all ranks answer the same rows. Collective over all ranks, once per
--- per_device_eval_batch_size rows of a rank.
---@param run moonring.Run
---@param dataset moonring.Dataset loaded with one_turn
---@param tell? fun(rows: integer) called with the number of finished rows
---@return moonring.Answer[]
function prediction.answers(run, dataset, tell)
  local c, mesh, rows, size = run.config, run.mesh, {}, dataset:size()
  local together = compute.holds_together(c)
  local ranks, rank = together and 1 or mesh:size(), together and 0 or mesh:rank()
  local answer, round = answerer(run, dataset), c.per_device_eval_batch_size * ranks
  for first = 0, size - 1, round do
    local mine = {}
    for row = first + rank, math.min(first + round, size) - 1, ranks do
      mine[#mine + 1] = answer(row)
    end
    for _, text in ipairs(mesh:gather(system.json_encode(mine))) do
      for _, each in ipairs(system.json_decode(text)) do rows[each.row + 1] = each end
    end
    if tell then tell(#rows) end
  end
  return rows
end

--- The mean scores of the answers.
---@param rows moonring.Answer[]
---@return table<string, number>
function prediction.means(rows)
  local means = {}
  for _, each in ipairs(rows) do
    for name, score in pairs(each.scores) do means[name] = (means[name] or 0) + score end
  end
  for name, sum in pairs(means) do means[name] = sum / #rows end
  return means
end

--- Returns a callback for `answers` that adds newly finished rows to the count `work`.
---@param work? moonring.WorkCount
---@return (fun(rows: integer))? tell
function prediction.counted(work)
  if not work then return nil end
  local reported = 0
  return function(rows)
    work:add(rows - reported)
    reported = rows
  end
end

-- Formats an answer as a JSON line, as Python's json.dumps does.
local function line_of(answer)
  local function text(name) return system.json_encode(answer[name]) end
  return ('{"prompt": %s, "predict": %s, "label": %s}\n'):format(text "prompt", text "predict",
    text "label")
end

local NO_ANSWER = '{"prompt": null, "predict": null, "label": null, "left_out": %s}\n'

-- Makes one output line per row of the data, in order. Rows that were skipped as examples have a
-- line, too.
local function lines_of(answers, uses)
  local lines, next_answer = {}, 1
  for i, use in ipairs(uses) do
    if use.left_out then
      lines[i] = NO_ANSWER:format(system.json_encode(use.left_out .. ", " .. use.where))
    else
      lines[i], next_answer = line_of(answers[next_answer]), next_answer + 1
    end
  end
  for i = next_answer, #answers do lines[#lines + 1] = line_of(answers[i]) end
  return lines
end

-- Adds to `named` how many rows were skipped and how many truncated, since the scores do not cover
-- them completely.
local function note_uses(uses, named)
  for _, use in ipairs(uses) do
    local cut = not use.left_out and use.prompt_cut + use.answer_cut > 0
    local name = use.left_out and "predict_rows_left_out" or cut and "predict_rows_cut"
    if name then named[name] = (named[name] or 0) + 1 end
  end
end

local CUT = "the scores are of rows that cutoff_len %d cuts, too: %d of %d compare with a part of "
  .. "the prompt or the label"

--- Writes generated_predictions.jsonl. Collective over all ranks.
---@param run moonring.Run
---@param dataset moonring.Dataset
---@return table<string, number> named the means and the speed, by their "predict_" names
function prediction.write(run, dataset)
  local c, began = run.config, system.clock()
  local rows = phases.run(run.progress, "answering", "prompts", function(work)
    if work then work:expect(dataset:size()) end
    return prediction.answers(run, dataset, prediction.counted(work))
  end)
  local means = prediction.means(rows)
  local named = journal_lines.evaluated(means, "predict_", #rows, system.clock() - began,
    c.per_device_eval_batch_size)
  local uses = dataset:row_uses()
  note_uses(uses, named)
  if run.mesh:rank() == 0 then
    local path = c.output_dir .. "/generated_predictions.jsonl"
    system.write(path, table.concat(lines_of(rows, uses)))
    run.log:say(journal_lines.scores_words(means, "predict_"))
    local cut = named.predict_rows_cut
    if cut then run.log:say(CUT:format(c.cutoff_len, cut, #rows)) end
    run.log:say("answers " .. path)
  end
  return named
end

return prediction
