--- moonring preprocess CONFIG.yaml out=FILE.jsonl [key=value...]: writes the training examples as
-- token ids and labels. One JSON object per line, in the order of the prepared data set, before the
-- shuffle of each epoch. Keys: those of train.
--   pt, sft  { input_ids, labels }: unshifted labels, -100 where there is no target
--   rm, dpo  { chosen_input_ids, chosen_labels, rejected_input_ids, rejected_labels }
--   kto      { input_ids, labels, kl_input_ids, kl_labels, kto_tag }: kl_ is the prompt with
--            another row's answer
-- model_name_or_path needs only a tokenizer, neither weights nor config.json. With tokenized_path
-- the examples are also stored there for train, and out may be omitted. With streaming: the
-- examples of the first pass, in training order. With val_size or eval_dataset, the evaluation
-- examples are written to FILE.eval.jsonl; with eval_on_each_dataset, those of each data set to
-- FILE.eval_NAME.jsonl.
local moonring = require "moonring"
local checks = require "moonring.run.checks"
local configured_template = require "moonring.data.configured_template"
local datasets = require "moonring.data.datasets"
local phases = require "moonring.report.phases"
local vocabulary = require "moonring.data.vocabulary"
local config = moonring.config.command(arg, { { "out", "string", moonring.null,
  "the file to write" } })
moonring.config.require_keys(config, { "model_name_or_path", config.data_source and "data_source"
  or "dataset", not config.tokenized_path and "out" or nil })
if config.out then moonring.config.check_output(config, "out") end
for _, check in ipairs { checks.datasets, checks.names } do
  moonring.config.placed(config, check, config)
end

local function write(dataset, path)
  dataset:write(path)
  moonring.terminal.note(dataset:report(), "\n")
  moonring.terminal.print(("%d examples in %s"):format(dataset:size(), path))
end

local files = moonring.model.open_tokenizer(config.model_name_or_path, config)
local tokenizer = vocabulary.tokenizer(config, files, configured_template.settle)
for _, note in ipairs(config.notes) do moonring.terminal.note(note, "\n") end
local progress = phases.progress(config)
local was_kept = datasets.kept(config)
local train, eval, each = phases.run(progress, "preparing data", "rows", function(work)
  local counted = not config.data_source and { work = work } or nil
  return moonring.config.placed(config, datasets.load, config, tokenizer, counted)
end)
local said = not was_kept and datasets.keep(config, train, eval, each)
if said then moonring.terminal.print(said) end
if not config.out then return end
if config.streaming then train = train:whole(config.per_device_train_batch_size) end
write(train, config.out)
local stem = config.out:gsub("%.jsonl$", "")
if eval then write(eval, stem .. ".eval.jsonl") end
for _, one in ipairs(each or {}) do
  write(one.dataset, stem .. ".eval_" .. one.name:gsub("/", "_") .. ".jsonl")
end
progress:line(phases.words(progress))
