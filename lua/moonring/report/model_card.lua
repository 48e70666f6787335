--- Writes README.md of a trained model, the model card that model hubs show. Its headings and lists
-- are those of Transformers' Trainer, which other tools expect; the report of the data, completions
-- and adapters are in addition.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local card_metadata = require "moonring.report.card_metadata"
local compute = require "moonring.choices.compute"
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

-- A number of a type that Python shows with a fraction: 3 -> "3.0".
local function fraction(value)
  local text = tostring(value)
  return text:find "^%-?%d+$" and text .. ".0" or text
end

-- In the Trainer's words for AdamW, which other tools look for.
local function optimizer(c)
  local words, args = optimizers.words(c), c.optim_args
  if words:find "^adam" then
    return "Use " .. words .. " and optimizer_args="
      .. (args or "No additional optimizer arguments")
  end
  return args and words .. " with " .. args or words
end

-- The Trainer omits a batch size over all ranks that is the one of a rank.
local function hyperparameters(c, dp, examples_per_step)
  local lines, train = {}, c.per_device_train_batch_size
  local eval, ranks = c.per_device_eval_batch_size, dp * c.sequence_parallel_size
  local function add(name, value) lines[#lines + 1] = ("- %s: %s"):format(name, value) end
  local function add_if(holds, name, value)
    if holds then add(name, value) end
  end
  add("learning_rate", fraction(c.learning_rate))
  add("train_batch_size", train)
  add("eval_batch_size", eval)
  add("seed", c.seed)
  add_if(ranks > 1, "distributed_type", compute.device(c) == "cuda" and "multi-GPU" or "multi-CPU")
  add_if(ranks > 1, "num_devices", ranks)
  add_if(c.sequence_parallel_size > 1, "sequence_parallel_size", c.sequence_parallel_size)
  add_if(c.gradient_accumulation_steps > 1, "gradient_accumulation_steps",
    c.gradient_accumulation_steps)
  add_if(examples_per_step ~= train, "total_train_batch_size", examples_per_step)
  add_if(dp > 1, "total_eval_batch_size", eval * dp)
  add("optimizer", optimizer(c))
  add("lr_scheduler_type", c.lr_scheduler_type)
  add_if(c.warmup_ratio > 0 and c.warmup_steps == 0, "lr_scheduler_warmup_ratio", c.warmup_ratio)
  add_if(c.warmup_steps > 0, "lr_scheduler_warmup_steps", c.warmup_steps)
  if c.max_steps > 0 then
    add("training_steps", c.max_steps)
  else
    add("num_epochs", fraction(c.num_train_epochs))
  end
  add_if(c.fp16, "mixed_precision_training", "Native AMP")
  add_if(c.label_smoothing_factor > 0, "label_smoothing_factor", c.label_smoothing_factor)
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

local COMMENT = "<!-- Written by Moonring from what it knows of the run. Complete it, then remove "
  .. "this comment. -->"
local MORE = "More information needed"

-- The first sentences: "the a, the b and the c datasets".
local function introduction(c)
  local names, from = {}, c.model_name_or_path
  for i, name in ipairs(c.dataset or {}) do names[i] = "the " .. name end
  local last = table.remove(names)
  local data = last and (#names > 0 and table.concat(names, ", ") .. " and " or "") .. last
    .. (#names > 0 and " datasets" or " dataset") or c.data_source or "data of a script's own"
  local begins = c.train_from_scratch and "This model was trained from scratch, with the shape of "
    or "This model is a fine-tuned version of "
  return ("%s%s on %s (stage %s, finetuning_type %s)."):format(begins, from, data, c.stage,
    c.finetuning_type)
end

--- The model card, including the metadata block read by model hubs.
---@param c moonring.Configuration
---@param run moonring.CardRun
---@return string
function model_card.text(c, run)
  local name = c.output_dir:match "([^/]+)/*$" or c.output_dir
  local parts = { card_metadata.text(c, name, run.last), COMMENT, "# " .. name, introduction(c) }
  local function say(text) parts[#parts + 1] = text end
  say(after_others(c, c.output_dir))
  if run.last then
    say("It achieves the following results on the evaluation set:\n" .. achieved(run.last))
  end
  say("## Model description\n\n" .. MORE)
  say("## Intended uses & limitations\n\n" .. MORE)
  say("## Training and evaluation data\n\n```\n" .. run.report:gsub("%s+$", "") .. "\n```")
  say("## Training procedure\n\n### Training hyperparameters\n\n"
    .. "The following hyperparameters were used during training:\n"
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
