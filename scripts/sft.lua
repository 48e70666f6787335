--- Supervised fine-tuning with the training loop written out: copy this file to try an idea.
-- moonring sft model=DIR data=NAME dir=data sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data",
  template = "default", out = "runs/sft", sp = 1, strategy = "zigzag-ring", batch = 16,
  epochs = 3, lr = 5e-5, cutoff = 2048, micro_tokens = 8192, save_steps = 500, val_size = 0,
  resume = false }

-- The run, configured with the keys of `moonring help train`. Starts the ranks unless -n did.
local run = moonring.run.open {
  stage = "sft", finetuning_type = "full", count = "targets", logging_steps = 1,
  disable_tqdm = true, -- the loop prints its own lines
  model_name_or_path = opt.model, dataset = opt.data, dataset_dir = opt.dir,
  template = opt.template, output_dir = opt.out, overwrite_output_dir = true,
  sequence_parallel_size = opt.sp, sequence_parallel_mode = opt.strategy,
  global_batch_size = opt.batch, num_train_epochs = opt.epochs, learning_rate = opt.lr,
  lr_scheduler_type = "cosine", cutoff_len = opt.cutoff, micro_batch_tokens = opt.micro_tokens,
  save_steps = opt.save_steps, val_size = opt.val_size, resume_from_checkpoint = opt.resume,
  eval_strategy = opt.val_size > 0 and "epoch" or "no",
}
local mesh, model, attention, states = run.mesh, run.model, run.attention, run.states
local sft, log_prob = moonring.objectives.sft { count = "targets" }, moonring.objectives.log_prob
local LINE = "step %d/%d  loss %.6f  grad_norm %.4f"

for step, k in run:steps() do
  local count, loss = 0, 0 -- count: the step's targets on all ranks, before its first forward
  for _, micro in ipairs(step:micro_batches()) do
    count = count + sft:count(micro:labels(), micro:sequence():lengths())
  end
  count = mesh:sum_dp(count)
  for _, micro in ipairs(step:micro_batches()) do
    moonring.scope(function() -- tensors created here are freed at `end`
      local ids, positions, targets, plan = attention:cut(micro:sequence()) -- this rank's shard
      local hidden = model:forward(ids, positions, plan)
      local mean = sft:loss(log_prob(hidden, model:head(), targets), targets) / math.max(count, 1)
      mean:backward()
      loss = loss + mean:item()
    end)
  end
  states:sum_gradients() -- a sum over all ranks, not an average
  local norm = run.updates:clip()
  if count > 0 then run.optimizer:step(run.schedule:at(k - 1)) end -- no target: nothing to train
  states:publish()
  states:clear_gradients()
  loss = mesh:sum(loss)
  if mesh:rank() == 0 then print(LINE:format(k, run.counts.total_steps, loss, norm)) end
  run:log { loss = loss, grad_norm = norm }
  run:evaluate_if_due()
  run:save_if_due()
end
run:finish()
