--- DPO with every step in sight: copy this file to try an idea. The loss of a pair is -log sigmoid(beta x (chosen - rejected log-ratio to the reference)).
-- moonring dpo model=DIR data=NAME dir=data sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data", template = "default", out = "runs/dpo",
  sp = 1, strategy = "zigzag-ring", batch = 16, epochs = 1, lr = 5e-6, beta = 0.1, cutoff = 2048, micro_tokens = 8192 }
moonring.launch(opt.sp) -- starts the ranks, where -n or torchrun did not
local mesh, checkpoint = moonring.comm.mesh { sp = opt.sp }, moonring.model.open(opt.model)
local policy, reference = moonring.model.load(checkpoint), moonring.model.load(checkpoint, { frozen = true })
local attention = moonring.attention.create { mesh = mesh, strategy = opt.strategy }
local dataset = moonring.data.load { names = { opt.data }, dir = opt.dir, stage = "dpo", template = opt.template,
  tokenizer = moonring.data.tokenizer(checkpoint), cutoff_len = opt.cutoff }
local weights, steps = policy:parameters(), math.ceil(dataset:size() / opt.batch) * opt.epochs
local adamw = moonring.trainer.adamw(weights)
local schedule = moonring.trainer.schedule { kind = "cosine", learning_rate = opt.lr, total_steps = steps }
for step, k in moonring.count(dataset:steps { mesh = mesh, batch = opt.batch, micro_batch_tokens = opt.micro_tokens, total_steps = steps }) do
  local share = 0
  for _, micro in ipairs(step:micro_batches()) do
    moonring.scope(function() -- tensors made here are released at `end`
      local ids, positions, targets, plan, layout = attention:cut(micro:sequence()) -- this rank's share
      local function log_probs(model) -- of the documents, summed over sp: chosen, rejected, chosen, rejected, ...
        local hidden = model:forward(ids, positions, plan)
        return moonring.objectives.document_sums(moonring.objectives.log_prob(hidden, model:head(), targets), layout, mesh)
      end
      local ratio = log_probs(policy) - moonring.no_grad(log_probs, reference)
      local margin = ratio:slice(0, ratio:numel(), 2) - ratio:slice(1, ratio:numel(), 2)
      local loss = (margin * opt.beta):logsigmoid():sum() / -step:size() -- the step's pairs, on all ranks
      loss:backward()
      share = share + loss:item()
    end)
  end
  moonring.trainer.sum_gradients(weights, mesh) -- over all ranks; nothing is averaged
  local norm = moonring.trainer.clip_gradients(weights, { max_norm = 1.0 })
  if norm > 0 then adamw:step(schedule:at(k - 1)) end -- else nothing is learnt: no decay
  weights:clear_gradients()
  local loss = mesh:sum(mesh:sp_rank() == 0 and share or 0) -- the ranks of an sp group hold the same
  if mesh:rank() == 0 then print(("step %d/%d  loss %.6f  grad_norm %.4f"):format(k, steps, loss, norm)) end
end
if mesh:rank() == 0 then policy:save(opt.out) end
