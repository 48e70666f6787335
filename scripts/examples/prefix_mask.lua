--- A prefix mask (prefix-LM): tokens of the prompt attend to the whole prompt, also to later
-- tokens; the answer stays causal. prompts() returns the length of each prompt; it ends where the
-- answer's targets begin, since no token may attend to its own target. The result is the same for
-- any sp, dp and strategy.
-- moonring scripts/examples/prefix_mask.lua model=DIR data=NAME dir=data sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data",
  template = "default", out = "runs/prefix_mask", sp = 1, strategy = "zigzag-ring", batch = 16,
  steps = 10, lr = 5e-5, cutoff = 2048, micro_tokens = 8192, window = 0 }

local prefix_lm = {
  level = "token",
  count = function(batch) return batch:count_targets() end,
  loss = function(_, log_probs) return -log_probs:sum() end,
  -- With `window`, every second layer attends only to the last `window` tokens and to the prompt.
  mask = function(batch)
    local prompts = { prefix = batch:sequence():prompts() }
    if opt.window > 0 then prompts.layers = { {}, { window = opt.window } } end
    return prompts
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
  cutoff_len = opt.cutoff, micro_batch_tokens = opt.micro_tokens,
}, { objective = prefix_lm })

for step, k in run:steps() do
  local update = run:update(step) -- forward, backward, sum over ranks, clip, optimizer
  run:log(update)
  if update.loss and run.mesh:rank() == 0 then
    print(("step %d  loss %.6f  grad_norm %.4f"):format(k, update.loss, update.grad_norm))
  end
end
run:finish()
