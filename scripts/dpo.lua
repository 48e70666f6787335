--- DPO with the training loop written out: copy this file to try an idea. The loss of a pair is
-- -log sigmoid(beta x (log-ratio of the chosen answer - log-ratio of the rejected answer)), where a
-- log-ratio is the policy's log-prob minus the reference's.
-- moonring dpo model=DIR data=NAME dir=data sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data",
  template = "default", out = "runs/dpo", sp = 1, strategy = "zigzag-ring", batch = 16,
  epochs = 1, lr = 5e-6, beta = 0.1, cutoff = 2048, micro_tokens = 8192, save_steps = 500,
  val_size = 0, resume = false }

-- The run, configured with the keys of `moonring help train`. Starts the ranks unless -n did.
local run = moonring.run.open {
  stage = "dpo", finetuning_type = "full", pref_beta = opt.beta, logging_steps = 1,
  disable_tqdm = true, -- the loop prints its own lines
  model_name_or_path = opt.model, dataset = opt.data, dataset_dir = opt.dir,
  template = opt.template, output_dir = opt.out, overwrite_output_dir = true,
  sequence_parallel_size = opt.sp, sequence_parallel_mode = opt.strategy,
  global_batch_size = opt.batch, num_train_epochs = opt.epochs, learning_rate = opt.lr,
  lr_scheduler_type = "cosine", cutoff_len = opt.cutoff, micro_batch_tokens = opt.micro_tokens,
  save_steps = opt.save_steps, val_size = opt.val_size, resume_from_checkpoint = opt.resume,
  eval_strategy = opt.val_size > 0 and "epoch" or "no",
}
local mesh, policy, states = run.mesh, run.model, run.states
local LINE = "step %d/%d  loss %.6f  grad_norm %.4f"

for step, k in run:steps() do
  local share = 0
  for _, micro in ipairs(step:micro_batches()) do
    moonring.scope(function() -- tensors created here are freed at `end`
      local batch = run.engine:batch(micro) -- this rank's shard of the micro-batch
      -- Log-probs of whole documents, in the order chosen, rejected, chosen, rejected, ...
      local reference = run.reference:log_probs(batch)
      local ratio = batch:document_log_probs(policy, batch:hidden(policy)) - reference
      local margin = ratio[{ { 0, ratio:numel(), 2 } }] - ratio[{ { 1, ratio:numel(), 2 } }]
      local loss = (margin * opt.beta):logsigmoid():sum() / -step:size() -- mean over the step
      loss:backward()
      share = share + loss:item()
    end)
  end
  states:sum_gradients() -- a sum over all ranks, not an average
  local norm = run.updates:clip()
  if norm > 0 then run.optimizer:step(run.schedule:at(k - 1)) end -- else the gradient is zero
  states:publish()
  states:clear_gradients()
  local loss = mesh:sum(mesh:sp_rank() == 0 and share or 0) -- the same on all ranks of an sp group
  if mesh:rank() == 0 then print(LINE:format(k, run.counts.total_steps, loss, norm)) end
  run:log { loss = loss, grad_norm = norm }
  run:evaluate_if_due()
  run:save_if_due()
end
run:finish()
