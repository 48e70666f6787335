--- The plan of a check: what is checked, with which configuration, model and documents. The command
-- makes it and writes it to a folder; the process of each layout reads it there.
local capture = require "moonring.commands.check.capture"
local compute = require "moonring.choices.compute"
local config = require "moonring.config"
local configured_template = require "moonring.data.configured_template"
local datasets = require "moonring.data.datasets"
local errors = require "moonring.base.errors"
local of_table = require "moonring.config.of_table"
local model = require "moonring.model"
local plan_keys = require "moonring.commands.check.plan_keys"
local policy = require "moonring.model.policy"
local rollout_settings = require "moonring.choices.rollout_settings"
local rows = require "moonring.commands.check.rows"
local small_model = require "moonring.commands.check.small_model"
local stages = require "moonring.choices.stages"
local vocabulary = require "moonring.data.vocabulary"

---@class moonring.check_plan
local plan = {}

---@class moonring.CheckPlan
---@field kind "objective" | "script" | "configuration"
---@field target string the path
---@field words string[] the words after it
---@field values table<string, any> keys and values of every run of the check
---@field rows? table[] the examples; absent: those of the script's own data
---@field about string[] lines that say what is checked
---@field place? string "FILE:LINE" where the objective's loss begins, if that is known

-- The examples of a configuration, from its data set.
local function read_rows(c)
  local files = model.open_tokenizer(c.model_name_or_path, c)
  local tokenizer = vocabulary.tokenizer(c, files, configured_template.settle)
  local dataset = datasets.load(c, tokenizer)
  local found = rows.of(stages.of(c).reads, dataset)
  dataset:close()
  return found
end

local function data_of(values)
  local reading = {}
  for name, value in pairs(values) do reading[name] = value end
  plan_keys.without(reading, { "packing", "neat_packing", "streaming", "val_size", "eval_dataset",
    "eval_on_each_dataset", "tokenized_path", "group_by_length" })
  reading.max_samples, reading.val_size = 64, 0
  local c = of_table(reading)
  datasets.fetch(c)
  return read_rows(c)
end

-- Replaces the model by a small one, if it is large, also in the words of the command. Returns a
-- sentence about it.
local function choose_model(made, values, folder)
  local c = of_table(values)
  policy.fetch(c)
  local checkpoint = c.train_from_scratch and model.open_fresh(c.model_name_or_path, c.seed, c)
    or model.open(c.model_name_or_path, c)
  local written, said = small_model.of(checkpoint, folder .. "/model")
  checkpoint:close()
  if written then
    plan_keys.without(values, { "adapter_name_or_path", "model_revision" })
    local large = values.model_name_or_path
    for i, word in ipairs(made.words) do
      local key, value = word:match "^(.-=)(.*)$"
      if value == large then made.words[i] = key .. written end
    end
    values.model_name_or_path, values.train_from_scratch = written, nil
  end
  return said
end

-- The documents of a check with this configuration.
local function choose_rows(made, values, has_own_data)
  local c = of_table(values)
  if rollout_settings.wanted(c) then
    values.global_batch_size = 2 * c.num_generations
    values.max_completion_length = math.min(c.max_completion_length, 24)
    return "completions of the data's prompts, which may be too short to be cut over ranks"
  elseif has_own_data then
    values.global_batch_size, values.streaming = rows.count(stages.of(c).reads), nil
    return "the first examples of the script's own data, which may be too short to be cut over "
      .. "ranks"
  end
  made.rows = data_of(values)
  plan_keys.use_rows(values, #made.rows)
  return ("the data's first %d examples, each document repeated or cut to 256 to 384 tokens, so "
    .. "that sp 2 cuts it"):format(#made.rows)
end

-- The stage whose rows an objective works on.
local function stage_for(objective, given)
  if given then return given end
  if objective.level ~= "sequence" then return "sft" end
  return objective.needs_reference and "dpo" or "rm"
end

-- Reads the table of an objective's file. A function gets a configuration and a model.
local function objective_of(value, values)
  if type(value) ~= "function" then return value end
  local c = of_table(values)
  local checkpoint = model.open_fresh(c.model_name_or_path, c.seed)
  return value(c, policy.learning(c, checkpoint))
end

-- Where the loss of an objective's table begins.
local function place_of(objective)
  local loss = type(objective) == "table" and objective.loss
  if type(loss) ~= "function" then return nil end
  local info = debug.getinfo(loss, "S")
  return info.source:sub(2) .. ":" .. info.linedefined
end

-- The plan of an objective's file. Without model_name_or_path the model and the documents are
-- synthetic.
local function of_objective_file(made, value, words, folder)
  local values = plan_keys.of_objective(config.load(nil, words).given)
  values.objective = made.target
  plan_keys.settle(values, folder)
  if values.model_name_or_path then
    made.about[1] = "model: " .. choose_model(made, values, folder)
  else
    local size = small_model.write(folder .. "/model")
    values.model_name_or_path, values.train_from_scratch = folder .. "/model", true
    values.finetuning_type = values.finetuning_type or "full"
    made.about[1] = ("model: a Llama of 2 layers, width 24 and %d ids, with random weights")
      :format(size)
  end
  local objective = objective_of(value, values)
  made.place = place_of(objective)
  values.stage = stage_for(objective, values.stage)
  values.template = values.template or "chatml"
  if values.dataset then
    made.about[2] = "documents: " .. choose_rows(made, values)
    return values
  end
  made.rows = rows.synthetic(stages.of(of_table(values)).reads, 96)
  plan_keys.use_rows(values, #made.rows)
  made.about[2] = ("documents: %d examples as of stage %s, with random ids, of 256 tokens or more, "
    .. "so that sp 2 cuts each document"):format(#made.rows, values.stage)
  return values
end

local function of_configuration(made, given, has_own_data, folder)
  local values = plan_keys.of_objective(given)
  plan_keys.settle(values, folder)
  made.about[1] = "model: " .. choose_model(made, values, folder)
  made.about[2] = "documents: " .. choose_rows(made, values, has_own_data)
  return values
end

--- Makes the plan of a check. Writes files of a small model into the folder. Errors: those of the
--- configuration, the model and the data.
---@param target string the path of a Lua file or a configuration
---@param words string[] further words
---@param folder string
---@return moonring.CheckPlan
function plan.make(target, words, folder)
  local made = { target = target, words = words, about = {} }
  if not target:find "%.lua$" then
    made.kind = "configuration"
    local c = config.load(target, words)
    compute.precision(c)
    made.values = of_configuration(made, c.given, c.data_source ~= nil, folder)
    return made
  end
  local found = capture.read(target, words)
  made.kind = found.kind
  if found.kind == "script" then
    made.place = place_of(found.objective)
    made.values = of_configuration(made, found.given, found.has_own_data, folder)
  elseif type(found.value) == "table" or type(found.value) == "function" then
    made.values = of_objective_file(made, found.value, words, folder)
  else
    errors.fail(target, ": expected a file that returns an objective (a table, or a function of ",
      "configuration and model), or a script that calls moonring.run.open; it returned ",
      type(found.value))
  end
  return made
end

return plan
