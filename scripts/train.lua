--- moonring train CONFIG.yaml [key=value...]: trains a model from an unchanged LLaMA-Factory
-- configuration. `stage` selects the kind of training, finetuning_type full, LoRA or freeze.
-- sequence_parallel_size ranks share each sequence; with moonring -n RANKS there are dp = RANKS /
-- sequence_parallel_size such groups. Writes the model (or the adapter), trainer_log.jsonl and the
-- other files of a run to output_dir.
local moonring = require "moonring"

local run = moonring.run.open(moonring.config.command(arg))
for step in run:steps() do
  run:log(run:update(step)) -- forward, backward, sum over ranks, clip, optimizer
  run:evaluate_if_due()
  run:save_if_due()
end
run:finish()
