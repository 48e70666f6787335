--- Token-weighted fine-tuning: a target whose text matches a pattern counts `weight` times. The
-- default pattern matches digits, for data in which a wrong digit is worse than a wrong word. The
-- loss is the weighted mean over the whole step: the same for any sp, dp and micro-batches.
-- moonring scripts/examples/token_weights.lua model=DIR data=NAME dir=data weight=4 sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data",
  template = "default", out = "runs/token_weights", sp = 1, strategy = "zigzag-ring", batch = 16,
  steps = 10, lr = 5e-5, cutoff = 2048, micro_tokens = 8192, pattern = "%d", weight = 4 }

-- Weights are whole numbers, because their sum is the objective's count, which must be a whole
-- number.
local tokenizer = moonring.data.tokenizer(moonring.model.open(opt.model))
local of_ids = {}
for id = 0, tokenizer:vocab_size() - 1 do
  of_ids[id + 1] = tokenizer:decode({ id }, true):find(opt.pattern) and opt.weight or 1
end
local weight_of_id = moonring.tensor(of_ids, "int64")

-- The weight of each target, [T] -> [T]; 0 where there is no target.
local function weights_of(targets)
  return weight_of_id:on(targets)[targets:clamp(0)] * targets:ge(0)
end

local weighted = {
  level = "token",
  count = function(batch) return weights_of(batch:sequence():targets()):sum():item() end,
  loss = function(batch, log_probs) -- log_probs is 0 in rows without a target
    local nll, targets = -log_probs, batch.targets
    return (nll * weights_of(targets)):sum(), { nll = { nll:sum(), targets:ge(0):sum() } }
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
}, { objective = weighted })

for step, k in run:steps() do
  local update = run:update(step) -- forward, backward, sum over ranks, clip, optimizer
  run:log(update)
  if update.loss and run.mesh:rank() == 0 then
    print(("step %d  loss %.6f  nll %.6f  grad_norm %.6f"):format(k, update.loss,
      moonring.metrics.means(update.metrics).nll, update.grad_norm))
  end
end
run:finish()
