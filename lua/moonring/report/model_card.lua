--- Writes README.md of a trained model, the model card that model hubs show. Its keys and headings
-- are those of Transformers' Trainer, which other tools expect.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local optimizers = require "moonring.choices.optimizers"
local system = require "moonring.native.system"

---@class moonring.model_card
local model_card = {}

---@class moonring.CardRun
---@field dp integer
---@field examples_per_step integer
---@field report string the report of the data set
---@field evaluations moonring.CardEvaluation[] during the training
---@field last? table<string, number> metrics of the last evaluation
---@field completions? table[] of the last rollout

---@class moonring.CardEvaluation
---@field loss? number training loss in the last log line
---@field epoch number
---@field step integer
---@field numbers table<string, number> by their "eval_" names

-- Metrics that describe an evaluation's speed.
local pace = { eval_runtime = true, eval_samples_per_second = true, eval_steps_per_second = true }

-- Converts a metric's name: "eval_rewards/accuracies" -> "Rewards/accuracies",
-- "eval_loss_per_token" -> "Loss Per Token".
local function title(name)
  return (name:gsub("^eval_", ""):gsub("_", " "):gsub("%f[%w/](%a)(%w*)",
    function(first, rest) return first:upper() .. rest end))
end

local function rounded(value)
  return type(value) == "number" and (("%.4f"):format(value):gsub("(%..-)0+$", "%1"):gsub("%.$",
    ".0")) or tostring(value)
end

local function front_matter(c, name)
  local adapted = adapter_kinds.has(c)
  local lines = { "---", "library_name: " .. (adapted and "peft" or "transformers"),
    "license: other",
    "base_model: " .. system.json_encode(c.model_name_or_path), "tags:" }
  if adapted then
    lines[#lines + 1] = "- " .. system.json_encode("base_model:adapter:" .. c.model_name_or_path)
  end
  for _, tag in ipairs { "moonring", c.finetuning_type, c.stage, "generated_from_trainer" } do
    lines[#lines + 1] = "- " .. tag
  end
  if adapted then lines[#lines + 1] = "pipeline_tag: text-generation" end
  for _, line in ipairs { "model-index:", "- name: " .. system.json_encode(name), "  results: []",
    "---" } do
    lines[#lines + 1] = line
  end
  return table.concat(lines, "\n")
end

-- A text about the adapters that must be merged into the base model before this adapter is used.
local function after_others(c, name)
  local first = {}
  local paths = adapter_kinds.has(c) and c.adapter_name_or_path or {}
  for i, path in ipairs(paths) do first[i] = path end
  if not c.create_new_adapter then table.remove(first) end -- the last is this one
  if #first == 0 then return nil end
  local listed = {}
  for i, path in ipairs(first) do listed[i] = ("%d. `%s`"):format(i, path) end
  return ("This adapter was trained over %s with other adapters merged into it, in this order:"
    .. "\n\n%s\n\nThey come first wherever it is used: `adapter_name_or_path: %s,%s`. Loaded over "
    .. "the base alone it gives another model."):format(c.model_name_or_path,
    table.concat(listed, "\n"), table.concat(first, ","), name)
end

local function hyperparameters(c, dp, examples_per_step)
  local rows = {
    { "learning_rate", c.learning_rate }, { "train_batch_size", c.per_device_train_batch_size },
      { "eval_batch_size", c.per_device_eval_batch_size }, { "seed", c.seed },
    { "num_devices", dp * c.sequence_parallel_size },
      { "sequence_parallel_size", c.sequence_parallel_size },
      { "gradient_accumulation_steps", c.gradient_accumulation_steps },
    { "total_train_batch_size", examples_per_step },
      { "total_eval_batch_size", c.per_device_eval_batch_size * dp },
    { "optimizer", optimizers.words(c) },
      { "lr_scheduler_type", c.lr_scheduler_type },
  }
  local function also(name, value) rows[#rows + 1] = { name, value } end
  if c.warmup_steps > 0 then
    also("lr_scheduler_warmup_steps", c.warmup_steps)
  elseif c.warmup_ratio > 0 then
    also("lr_scheduler_warmup_ratio", c.warmup_ratio)
  end
  if c.max_steps > 0 then
    also("training_steps", c.max_steps)
  else
    also("num_epochs", c.num_train_epochs)
  end
  if c.label_smoothing_factor > 0 then also("label_smoothing_factor", c.label_smoothing_factor) end
  local lines = {}
  for i, row in ipairs(rows) do lines[i] = ("- %s: %s"):format(row[1], row[2]) end
  return table.concat(lines, "\n")
end

-- The names of the metrics, the loss first. Those that only describe the speed are omitted.
local function telling(numbers)
  local names = {}
  for name in pairs(numbers) do
    if not pace[name] then names[#names + 1] = name end
  end
  table.sort(names, function(a, b) return a ~= b
    and (a == "eval_loss" or (b ~= "eval_loss" and a < b)) end)
  return names
end

-- A Markdown table of the evaluations during the training. Each evaluation has the fields loss (of
-- the training), epoch, step, and numbers (metrics by their "eval_" names).
local function results(evaluations)
  local names, head = telling(evaluations[1].numbers), { "Training Loss", "Epoch", "Step" }
  for _, name in ipairs(names) do
    head[#head + 1] = name == "eval_loss" and "Validation Loss" or title(name)
  end
  local lines = { "| " .. table.concat(head, " | ") .. " |", "|" .. (":---:|"):rep(#head) }
  for _, each in ipairs(evaluations) do
    local cells = { each.loss and rounded(each.loss) or "No log", rounded(each.epoch), each.step }
    for _, name in ipairs(names) do cells[#cells + 1] = rounded(each.numbers[name]) end
    lines[#lines + 1] = "| " .. table.concat(cells, " | ") .. " |"
  end
  return table.concat(lines, "\n")
end

local function achieved(numbers)
  local lines = {}
  for i, name in ipairs(telling(numbers)) do
    lines[i] = ("- %s: %s"):format(title(name), rounded(numbers[name]))
  end
  return table.concat(lines, "\n")
end

local SHOWN = 3 -- completions shown

--- The first completions of a rollout and their rewards, one Markdown line each.
---@param completions table[] as in completions/
---@return string
function model_card.generated(completions)
  local lines = {}
  for i = 1, math.min(SHOWN, #completions) do
    local each = completions[i]
    local text = each.completion:gsub("%s+", " "):gsub("`", "'")
    lines[i] = ("- reward %s, %d tokens: `%s`"):format(each.reward and rounded(each.reward)
      or "none", each.tokens, text)
  end
  return table.concat(lines, "\n")
end

--- The model card, including the metadata block read by model hubs.
---@param c moonring.Configuration
---@param run moonring.CardRun
---@return string
function model_card.text(c, run)
  local name = c.output_dir:match "([^/]+)/*$" or c.output_dir
  local parts = { front_matter(c, name), "# " .. name,
    ("%s, trained by Moonring: stage %s, finetuning_type %s, on %s."):format(c.model_name_or_path,
      c.stage, c.finetuning_type,
      c.dataset and table.concat(c.dataset, ", ") or c.data_source or "data of a script's own") }
  local function say(text) parts[#parts + 1] = text end
  say(after_others(c, c.output_dir))
  if run.last then say("On the evaluation set:\n\n" .. achieved(run.last)) end
  say("## Training and evaluation data\n\n```\n" .. run.report:gsub("%s+$", "") .. "\n```")
  say("## Training procedure\n\n### Training hyperparameters\n\n"
    .. hyperparameters(c, run.dp, run.examples_per_step))
  if #run.evaluations > 0 then say("### Training results\n\n" .. results(run.evaluations)) end
  if run.completions then
    say("### Completions\n\nOf the last rollout:\n\n" .. model_card.generated(run.completions))
  end
  say(("### Framework versions\n\n- Moonring %s\n- LibTorch %s"):format(system.version(),
    system.torch_version()))
  return table.concat(parts, "\n\n") .. "\n"
end

--- Writes README.md in output_dir, on rank 0. Call it after the last evaluation.
---@param journal moonring.Journal
function model_card.write(journal)
  local c = journal.config
  system.write(c.output_dir .. "/README.md", model_card.text(c, { dp = journal.mesh:dp_size(),
    examples_per_step = journal.counts.examples_per_step, report = journal.dataset:report(),
    evaluations = journal.evaluations, last = journal.last_evaluation,
    completions = journal.completions }))
end

return model_card
