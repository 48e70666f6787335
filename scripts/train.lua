--- moonring train CONFIG.yaml [key=value...]: trains a model as a LLaMA-Factory configuration says, unchanged.
-- Over sequence_parallel_size ranks that share each sequence; with moonring -n RANKS, dp = RANKS / sequence_parallel_size of
-- such groups. Writes the model, trainer_log.jsonl and the other files of a run to output_dir.
local moonring = require "moonring"
local run = moonring.run
local config = moonring.config.command(arg)
run.check(config)
moonring.launch(config.sequence_parallel_size, run.ranks(config))

local mesh = run.mesh(config)
local checkpoint = moonring.model.open(config.model_name_or_path)
local tokenizer = moonring.data.tokenizer(checkpoint)
local dataset = run.dataset(config, tokenizer)
local model = run.model(config, checkpoint)
local attention, weights = run.attention(config, mesh, model), model:parameters()
local counts = run.counts(config, dataset:size(), mesh:dp_size())
local optimizer, schedule = run.optimizer(config, weights), run.schedule(config, counts.total_steps)
local sft = moonring.objectives.sft { count = config.count }
local journal = moonring.journal.open(config, mesh, counts, dataset, attention)
local sample = moonring.journal.sampler(config, mesh, model, tokenizer)

-- Adds the gradient of one micro-batch; returns this rank's share of the step's loss.
local function accumulate(micro, count)
  local sequence = micro:sequence()
  local ids, positions, targets, plan = attention:cut(sequence)
  journal:attention(attention:describe(sequence))
  local hidden = model:forward(ids, positions, plan)
  local log_prob = moonring.objectives.log_prob(hidden, model:head(), targets, { dtype = model:matmul_dtype() })
  local loss = sft:loss(log_prob, targets) / math.max(count, 1)
  loss:backward()
  return loss:item()
end

sample "before"
mesh:barrier()
moonring.system.started()
for step, k in moonring.count(run.steps(config, dataset, mesh, counts)) do
  local count, share = mesh:sum_dp(step:count(sft)), 0 -- of the whole step, before its first forward
  for _, micro in ipairs(step:micro_batches()) do
    share = share + moonring.scope(accumulate, micro, count)
  end
  moonring.trainer.sum_gradients(weights, mesh)
  local norm = moonring.trainer.clip_gradients(weights, { max_norm = config.max_grad_norm })
  local lr = schedule:at(k - 1)
  optimizer:step(lr)
  weights:clear_gradients()
  journal:step { step = k, loss = mesh:sum(share), lr = lr, grad_norm = norm, tokens = step:tokens(), epoch = counts.epoch_after(step:epoch(), step:index()) }
end
if mesh:rank() == 0 then model:save(config.output_dir) end
sample "after"
journal:close()
mesh:barrier()
