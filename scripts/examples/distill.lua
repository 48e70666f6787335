--- Distillation: a model is trained on the whole next-token distribution of a larger, frozen model,
-- and on the targets. The logits of both models are computed for a chunk of rows at a time, so
-- [tokens, vocabulary] is never in memory. The result is the same for any sp, dp and micro-batches.
-- moonring scripts/examples/distill.lua model=DIR reference=LARGER_DIR data=NAME dir=data sp=2
local moonring = require "moonring"
local compute = require "moonring.choices.compute"
local opt = moonring.flags { model = moonring.required, reference = moonring.required,
  data = moonring.required, dir = "data", template = "default", out = "runs/distill", sp = 1,
  strategy = "zigzag-ring", batch = 16, steps = 10, lr = 5e-5, micro_tokens = 8192, bf16 = false,
  kind = "forward", temperature = 2, weight = 0.5 }

-- The loss: weight x temperature^2 x divergence - (1 - weight) x log p, summed over this rank's
-- targets.
local function distillation(c, policy)
  local reference = moonring.model.load(moonring.model.open(opt.reference), { frozen = true,
    precision = compute.precision(c), device = compute.device(c) })
  return {
    level = "token",
    count = function(batch) return batch:count_targets() end,
    values = function(batch, hidden)
      local of_reference = batch:reference_hidden(reference)
      return { log_probs = batch:token_log_probs(policy, hidden),
        divergence = batch:divergence(policy, hidden, { kind = opt.kind,
          temperature = opt.temperature, reference = reference, hidden = of_reference }) }
    end,
    loss = function(batch, of)
      local divergence, log_probs = of.divergence:sum(), of.log_probs:sum()
      local targets = (batch.targets:gt(-1)):to("fp64"):sum()
      return opt.weight * opt.temperature ^ 2 * divergence - (1 - opt.weight) * log_probs,
        { divergence = { divergence, targets }, nll = { -log_probs, targets } }
    end,
  }
end

local run = moonring.run.open({
  stage = "sft", finetuning_type = "full", logging_steps = 1, lr_scheduler_type = "constant",
  model_name_or_path = opt.model, dataset = opt.data, dataset_dir = opt.dir, bf16 = opt.bf16,
  template = opt.template, output_dir = opt.out, overwrite_output_dir = true,
  sequence_parallel_size = opt.sp, sequence_parallel_mode = opt.strategy, max_steps = opt.steps,
  global_batch_size = opt.batch, learning_rate = opt.lr, micro_batch_tokens = opt.micro_tokens,
}, { objective = distillation })

for step in run:steps() do
  run:log(run:update(step))
end
run:finish()
