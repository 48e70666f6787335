--- Supervised fine-tuning with every step in sight: copy this file to try an idea.
-- moonring sft model=DIR data=NAME dir=data sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data", template = "default", out = "runs/sft",
  sp = 1, strategy = "zigzag-ring", batch = 16, epochs = 3, lr = 5e-5, cutoff = 2048, micro_tokens = 8192 }
moonring.launch(opt.sp) -- starts the ranks, where -n or torchrun did not
local mesh, checkpoint = moonring.comm.mesh { sp = opt.sp }, moonring.model.open(opt.model)
local model, tokenizer = moonring.model.load(checkpoint), moonring.data.tokenizer(checkpoint)
local attention = moonring.attention.create { mesh = mesh, strategy = opt.strategy }
local dataset = moonring.data.load { names = { opt.data }, dir = opt.dir, template = opt.template, tokenizer = tokenizer, cutoff_len = opt.cutoff }
local sft, weights = moonring.objectives.sft { count = "targets" }, model:parameters()
local adamw, steps = moonring.trainer.adamw(weights), math.ceil(dataset:size() / opt.batch) * opt.epochs
local schedule = moonring.trainer.schedule { kind = "cosine", learning_rate = opt.lr, total_steps = steps }
for step, k in moonring.count(dataset:steps { mesh = mesh, batch = opt.batch, micro_batch_tokens = opt.micro_tokens, total_steps = steps }) do
  local count, loss = 0, 0 -- what the step predicts, on all ranks, before its first forward
  for _, micro in ipairs(step:micro_batches()) do count = count + sft:count(micro:labels(), micro:sequence():lengths()) end
  count = mesh:sum_dp(count)
  for _, micro in ipairs(step:micro_batches()) do
    moonring.scope(function() -- tensors made here are released at `end`
      local ids, positions, targets, plan = attention:cut(micro:sequence()) -- this rank's share
      local hidden = model:forward(ids, positions, plan)
      local sum = sft:loss(moonring.objectives.log_prob(hidden, model:head(), targets), targets);
      (sum / math.max(count, 1)):backward()
      loss = loss + sum:item() / math.max(count, 1)
    end)
  end
  moonring.trainer.sum_gradients(weights, mesh) -- over all ranks; nothing is averaged
  local norm = moonring.trainer.clip_gradients(weights, { max_norm = 1.0 })
  if count > 0 then adamw:step(schedule:at(k - 1)) end -- else nothing is learnt: no decay
  weights:clear_gradients()
  loss = mesh:sum(loss)
  if mesh:rank() == 0 then print(("step %d/%d  loss %.6f  grad_norm %.4f"):format(k, steps, loss, norm)) end
end
if mesh:rank() == 0 then model:save(opt.out) end
