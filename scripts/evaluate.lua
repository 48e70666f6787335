--- moonring evaluate CONFIG.yaml [key=value...]: evaluates a configuration's model as it is. On
-- eval_dataset, or on what val_size holds out of dataset, for any stage: the same as moonring train
-- with do_train: false and do_eval: true. Writes eval_results.json, all_results.json and
-- data_report.json to output_dir, and changes nothing else there.
local moonring = require "moonring"

local words = { [0] = arg[0], unpack(arg) }
if #words > 0 then
  words[#words + 1], words[#words + 2] = "do_train=false", "do_eval=true"
end
local run = moonring.run.open(moonring.config.command(words))
run:finish()
