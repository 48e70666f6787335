--- moonring preprocess CONFIG.yaml out=FILE.jsonl [key=value...]: writes the training examples as token ids and labels.
-- One JSON a line, in the order of the prepared data set, before the epoch's shuffle. Keys: those of train.
--   pt, sft  { input_ids, labels }: labels unshifted, -100 where nothing is learnt
--   rm, dpo  { chosen_input_ids, chosen_labels, rejected_input_ids, rejected_labels }
--   kto      { input_ids, labels, kl_input_ids, kl_labels, kto_tag }: kl_ is the prompt with another row's answer
-- With val_size or eval_dataset FILE.eval.jsonl gets what is evaluated.
local moonring = require "moonring"
local config = moonring.config.command(arg, { { "out", "string", moonring.null, "the file to write" } })
moonring.config.require_keys(config, { "out", "model_name_or_path", "dataset" })
moonring.config.check_output(config, "out")
moonring.checks.datasets(config)

local function write(dataset, path)
  dataset:write(path)
  io.stderr:write(dataset:report(), "\n")
  print(("%d examples in %s"):format(dataset:size(), path))
end

local checkpoint = moonring.model.open(config.model_name_or_path)
local tokenizer = moonring.data.tokenizer(checkpoint)
moonring.templates.settle(config, checkpoint, tokenizer)
for _, note in ipairs(config.notes) do io.stderr:write(note, "\n") end
local train, eval = moonring.run.datasets(config, tokenizer)
write(train, config.out)
if eval then write(eval, config.out:gsub("%.jsonl$", "") .. ".eval.jsonl") end
