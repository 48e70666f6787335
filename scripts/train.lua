--- moonring train CONFIG.yaml [key=value...]: trains a model as a LLaMA-Factory configuration says,
-- unchanged. Stages pt, sft, rm, dpo and kto; full, LoRA or freeze. Over sequence_parallel_size
-- ranks that share each sequence; with moonring -n RANKS, dp = RANKS / sequence_parallel_size of
-- such groups. Writes the model (or the adapter), trainer_log.jsonl and the other files of a run
-- to output_dir.
local moonring = require "moonring"

local run = moonring.run.open(moonring.config.command(arg))
for step in run:steps() do
  run:log(run:update(step)) -- forward, backward, sum over ranks, clip, optimizer
  run:evaluate_if_due()
  run:save_if_due()
end
run:finish()
