--- A loss of one's own: focal loss, which looks away from tokens that the model already knows. The objective knows neither ranks nor accumulation; the
-- runtime divides, once, by the count of the whole step, so that the numbers are the same for any sp, dp and micro-batches.
-- moonring own_loss model=DIR data=NAME dir=data sp=2 micro_tokens=2048
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data", template = "default", out = "",
  sp = 1, strategy = "zigzag-ring", batch = 16, steps = 10, lr = 5e-5, gamma = 2, cutoff = 2048, micro_tokens = 8192 }

-- The sum of -(1 - p)^gamma log p over this rank's targets (a row without one has log p = 0), and how sure the model was of them.
local focal = {
  level = "token",
  count = function(batch) return batch:count_targets() end,
  loss = function(batch, log_probs)
    local p = log_probs:exp()
    local learnt = (batch.targets:gt(-1)):to "fp64"
    return -((1 - p) ^ opt.gamma * log_probs):sum(), { confidence = { (p * learnt):sum(), learnt:sum() } } -- read by the runtime, once a step
  end,
}

moonring.launch(opt.sp) -- starts the ranks, where -n or torchrun did not
local mesh, checkpoint = moonring.comm.mesh { sp = opt.sp }, moonring.model.open(opt.model)
local model = moonring.model.load(checkpoint)
local attention = moonring.attention.create { mesh = mesh, strategy = opt.strategy }
local dataset = moonring.data.load { names = { opt.data }, dir = opt.dir, template = opt.template, tokenizer = moonring.data.tokenizer(checkpoint), cutoff_len = opt.cutoff }
local runtime = moonring.runtime.new { mesh = mesh, model = model, attention = attention, objective = focal }
local adamw = moonring.trainer.adamw(runtime.parameters)
for step, k in moonring.count(dataset:steps { mesh = mesh, batch = opt.batch, micro_batch_tokens = opt.micro_tokens, total_steps = opt.steps }) do
  local loss, metrics = runtime:backward(step, k) -- the gradient of the whole step's loss, summed over all ranks
  local norm = loss and moonring.trainer.clip_gradients(runtime.parameters, { max_norm = 1.0 })
  if loss then adamw:step(opt.lr) end -- else no token of the step is a target
  runtime.parameters:clear_gradients()
  if loss and mesh:rank() == 0 then
    print(("step %d  loss %.6f  confidence %.4f  grad_norm %.4f"):format(k, loss, moonring.metrics.means(metrics).confidence, norm))
  end
end
if opt.out ~= "" and mesh:rank() == 0 then model:save(opt.out) end
