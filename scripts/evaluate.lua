--- moonring evaluate CONFIG.yaml [key=value...]: evaluates the model of a configuration without
-- training it. Evaluates on eval_dataset, or on the val_size split of dataset, for any stage: the
-- same as moonring train with do_train: false and do_eval: true. Writes eval_results.json,
-- all_results.json and data_report.json to output_dir; other files there are not changed.
local moonring = require "moonring"

local words = { [0] = arg[0], unpack(arg) }
if #words > 0 then
  words[#words + 1], words[#words + 2] = "--do_train=false", "--do_eval=true"
end
local run = moonring.run.open(moonring.config.command(words))
run:finish()
