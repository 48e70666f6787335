--- A custom loss: focal loss, which gives less weight to tokens that the model already predicts
-- well. The objective does not deal with ranks or accumulation: the engine divides the loss once,
-- by the count of the whole step, so the result is the same for any sp, dp and micro-batches.
-- moonring own_loss model=DIR data=NAME dir=data sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data",
  template = "default", out = "runs/own_loss", sp = 1, strategy = "zigzag-ring", batch = 16,
  steps = 10, lr = 5e-5, gamma = 2, cutoff = 2048, micro_tokens = 8192, save_steps = 500,
  val_size = 0, resume = false }

-- The sum of -(1 - p)^gamma log p over this rank's targets (log p is 0 in rows without one), and
-- the mean probability of the targets as the metric `confidence`.
local focal = {
  level = "token",
  count = function(batch) return batch:count_targets() end,
  loss = function(batch, log_probs)
    local p = log_probs:exp()
    local learnt = (batch.targets:gt(-1)):to "fp64"
    local sum = -((1 - p) ^ opt.gamma * log_probs):sum()
    return sum, { confidence = { (p * learnt):sum(), learnt:sum() } }
  end,
}

-- The run, configured with the keys of `moonring help train`. Starts the ranks unless -n did.
local run = moonring.run.open({
  stage = "sft", finetuning_type = "full", logging_steps = 1, lr_scheduler_type = "constant",
  disable_tqdm = true, -- the loop prints its own lines
  model_name_or_path = opt.model, dataset = opt.data, dataset_dir = opt.dir,
  template = opt.template, output_dir = opt.out, overwrite_output_dir = true,
  sequence_parallel_size = opt.sp, sequence_parallel_mode = opt.strategy,
  global_batch_size = opt.batch, max_steps = opt.steps, learning_rate = opt.lr,
  cutoff_len = opt.cutoff, micro_batch_tokens = opt.micro_tokens, save_steps = opt.save_steps,
  val_size = opt.val_size, eval_strategy = opt.val_size > 0 and "epoch" or "no",
  resume_from_checkpoint = opt.resume,
}, { objective = focal })

local LINE = "step %d  loss %.6f  confidence %.4f  grad_norm %.4f"

for step, k in run:steps() do
  local update = run:update(step) -- forward, backward, sum over ranks, clip, optimizer
  run:log(update)
  if update.loss and run.mesh:rank() == 0 then
    local confidence = moonring.metrics.means(update.metrics).confidence
    print(LINE:format(k, update.loss, confidence, update.grad_norm))
  end
  run:evaluate_if_due()
  run:save_if_due()
end
run:finish()
