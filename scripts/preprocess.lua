--- moonring preprocess CONFIG.yaml out=FILE.jsonl [key=value...]: writes the training examples as token ids and labels.
-- One JSON a line, in the order of the prepared data set, before the epoch's shuffle. Keys: those of train.
--   sft  { input_ids, labels }: labels unshifted, -100 where nothing is learnt
local moonring = require "moonring"
local config = moonring.config.command(arg, { { "out", "string", moonring.null, "the file to write" } })
moonring.config.require_keys(config, { "out", "model_name_or_path", "dataset" })
moonring.config.check_output(config, "out")

local checkpoint = moonring.model.open(config.model_name_or_path)
local dataset = moonring.run.dataset(config, moonring.data.tokenizer(checkpoint))
dataset:write(config.out)
io.stderr:write(dataset:report(), "\n")
print(("%d examples in %s"):format(dataset:size(), config.out))
