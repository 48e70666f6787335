--- Answers to the prompts of a data set, each compared with the row's own answer: what
-- predict_with_generate evaluates by and do_predict writes, as LLaMA-Factory does. The same for any
-- number of ranks: a row is answered by itself, its draws by seed and row.
local chat = require "moonring.commands.chat"
local compute = require "moonring.run.compute"
local config = require "moonring.config"
local configured_template = require "moonring.data.configured_template"
local data = require "moonring.data"
local datasets = require "moonring.data.datasets"
local journal_lines = require "moonring.report.journal_lines"
local optimizers = require "moonring.run.optimizers"
local phases = require "moonring.report.phases"
local policy = require "moonring.model.policy"
local system = require "moonring.native.system"
local vocabulary = require "moonring.data.vocabulary"

---@class moonring.prediction
local prediction = {}

---@class moonring.Answer
---@field row integer from 0
---@field prompt string with its special tokens
---@field predict string
---@field label string
---@field scores table<string, number> bleu-4, rouge-1, rouge-2, rouge-l

--- Whether a run answers and trains nothing.
---@param c moonring.Configuration
---@return boolean
function prediction.is_all(c) return c.do_predict and not c.do_train end

-- What ends an answer, as in LLaMA-Factory: eos, and every special token that has no name of its
-- own, the template's stop words among them.
local function stop_ids(template, tokenizer)
  local ids = template:stop_ids()
  for _, id in ipairs(tokenizer:more_special_ids()) do ids[#ids + 1] = id end
  return ids
end

-- The ids before a row's answer, and the answer's.
local function parts(document)
  local prompt, label = {}, {}
  for i, id in ipairs(document.ids) do
    local list = document.labels[i] == -100 and prompt or label
    list[#list + 1] = id
  end
  return prompt, label
end

local function answerer(run, dataset)
  local c, tokenizer = run.config, run.tokenizer
  local how, segmenter = chat.sampling(c, true), data.word_segmenter()
  how.stop_ids = stop_ids(data.template(configured_template.of(c), tokenizer, c.default_system),
    tokenizer)
  how.around = run.objective and run.objective.around
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
      scores = segmenter:compare(tokenizer:decode(ids, true), tokenizer:decode(label, true)) }
  end
end

--- An answer to each row's prompt, in their order. Ranks take rows in turn, and all the same ones
--- where they hold the weights together. Collective over all ranks, after each
--- per_device_eval_batch_size rows of a rank.
---@param run moonring.Run
---@param dataset moonring.Dataset made with one_turn
---@param tell? fun(rows: integer) is told how many there are so far
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

--- The means of the answers' scores.
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

--- Of `answers`' tell: adds what is new to a count.
---@param work? moonring.WorkCount
---@return (fun(rows: integer))? tell
function prediction.counted(work)
  if not work then return nil end
  local told = 0
  return function(rows)
    work:add(rows - told)
    told = rows
  end
end

-- A line as Python's json.dumps writes it.
local function line_of(answer)
  local function text(name) return system.json_encode(answer[name]) end
  return ('{"prompt": %s, "predict": %s, "label": %s}\n'):format(text "prompt", text "predict",
    text "label")
end

--- Writes generated_predictions.jsonl. Collective over all ranks.
---@param run moonring.Run
---@param dataset moonring.Dataset
---@return table<string, number> named the means and the pace, by their "predict_" names
function prediction.write(run, dataset)
  local c, began = run.config, system.clock()
  local rows = phases.run(run.progress, "answering", "prompts", function(work)
    if work then work:expect(dataset:size()) end
    return prediction.answers(run, dataset, prediction.counted(work))
  end)
  local means = prediction.means(rows)
  local named = journal_lines.evaluated(means, "predict_", #rows, system.clock() - began,
    c.per_device_eval_batch_size)
  if run.mesh:rank() == 0 then
    local lines = {}
    for i, answer in ipairs(rows) do lines[i] = line_of(answer) end
    local path = c.output_dir .. "/generated_predictions.jsonl"
    system.write(path, table.concat(lines))
    run.log:say(journal_lines.scores_words(means, "predict_"))
    run.log:say("answers " .. path)
  end
  return named
end

--- Opens what a run that trains nothing needs: the data, and the model with its adapters.
--- Collective over all ranks.
---@param run moonring.Run whose ranks are there
function prediction.open(run)
  local c, mesh, notes = run.config, run.mesh, run.notes
  run.checkpoint, notes.model = policy.open(c)
  run.tokenizer = vocabulary.open(c, run.checkpoint, configured_template.settle)
  run.prompts = phases.run(run.progress, "preparing data", nil, function()
    return datasets.load_prompts(c, run.tokenizer)
  end)
  vocabulary.fit(c, run.checkpoint, run.tokenizer, false, { { dataset = run.prompts } })
  run.zero = optimizers.zero(c, mesh)
  local began = system.clock()
  run.model = phases.run(run.progress, "loading the model", nil, function()
    return policy.load(c, run.checkpoint, run.zero)
  end)
  run.preparation = system.clock() - began
  local progress = run.progress
  run.log = { progress = progress, say = function(_, text)
    if progress then progress:line(text) end
  end }
  for _, subject in ipairs { "config", "gpus", "model", "lock", "determinism" } do
    for _, note in ipairs(notes[subject] or {}) do run.log:say(note) end
  end
  run.log:say(("%d prompts to answer; %s"):format(run.prompts:size(), tostring(mesh)))
end

-- NAME_results.json, and the same beside what all_results.json has.
local function write_results(dir, name, named)
  local all = {}
  if system.exists(dir .. "/all_results.json") then
    local read, found = pcall(system.json_decode, system.read(dir .. "/all_results.json"))
    if read and type(found) == "table" then all = found end
  end
  for key, value in pairs(named) do all[key] = value end
  system.write(dir .. "/" .. name .. "_results.json", system.json_encode(named, 2) .. "\n")
  system.write(dir .. "/all_results.json", system.json_encode(all, 2) .. "\n")
end

--- Answers, where nothing is trained: generated_predictions.jsonl, predict_results.json, and with
--- do_eval the same numbers as eval_results.json. Collective over all ranks.
---@param run moonring.Run as `open` left it
function prediction.finish(run)
  local c, progress = run.config, run.log.progress
  system.started()
  local named = prediction.write(run, run.prompts)
  named.predict_model_preparation_time = run.preparation
  if run.mesh:rank() == 0 then
    local evaluated = {}
    for name, value in pairs(named) do evaluated[name:gsub("^predict", "eval")] = value end
    if c.do_eval then write_results(c.output_dir, "eval", evaluated) end
    write_results(c.output_dir, "predict", named)
    progress:line(phases.words(progress))
    progress:close()
  end
  run.mesh:barrier()
end

return prediction
