--- Contrastive learning (InfoNCE: van den Oord et al. 2018, arXiv 1807.03748): a document's vector
-- is the mean of its hidden states. The positive of an answer is the other answer of its pair; all
-- other documents of the step are negatives. All vectors are computed first, without a graph; then
-- the gradient of each vector is backpropagated in its own micro-batch (Gao et al. 2021, arXiv
-- 2101.06983), so the result is the same for any sp and dp.
-- moonring scripts/examples/contrastive.lua model=DIR data=PAIRS dir=data sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data",
  template = "default", out = "runs/contrastive", sp = 1, strategy = "zigzag-ring", batch = 16,
  steps = 10, lr = 5e-5, micro_tokens = 8192, temperature = 0.1 }
local losses, pulls -- per document of the step: its loss [N] and the gradient of its vector [N, D]

local function places(batch) -- rows of its documents in the step; a pair has two
  local pairs_at = moonring.tensor(batch:places(), "int64"):unsqueeze(1) * 2
  return (pairs_at + moonring.arange(2)):flatten()
end

local contrastive = {
  level = "sequence",
  count = function(batch) return 2 * batch:size() end,
  values = function(batch, hidden) -- [documents, D], also of documents split over ranks
    local lengths = moonring.tensor(batch:lengths(), "fp64"):unsqueeze(1)
    return batch:document_sums(hidden) / lengths:on(hidden)
  end,
  loss = function(batch, vectors)
    local rows = places(batch)
    local pulled = (vectors * pulls[rows]:on(vectors)):sum() -- its gradient is that of the loss
    return losses[rows]:sum():on(pulled) + pulled - pulled:detach()
  end,
}

local run = moonring.run.open({
  stage = "rm", finetuning_type = "full", logging_steps = 1, lr_scheduler_type = "constant",
  model_name_or_path = opt.model, dataset = opt.data, dataset_dir = opt.dir, output_dir = opt.out,
  template = opt.template, overwrite_output_dir = true, sequence_parallel_size = opt.sp,
  sequence_parallel_mode = opt.strategy, global_batch_size = opt.batch, max_steps = opt.steps,
  learning_rate = opt.lr, micro_batch_tokens = opt.micro_tokens,
}, { objective = contrastive })

local function survey(step)
  local n, width = 2 * step:size(), run.checkpoint:facts().hidden_size
  local vectors = moonring.zeros({ n, width }, { dtype = "fp64" })
  for _, micro in ipairs(run.engine:micro_batches(step:micro_batches())) do
    moonring.scope(moonring.no_grad, function()
      local batch = run.engine:batch(micro)
      vectors:index_copy_(0, places(batch), run.engine:values(batch):to "cpu")
    end)
  end
  vectors = run.mesh:sum_dp(vectors):requires_grad_() -- the other rows are on the other dp ranks
  local unit = vectors / vectors:norm(2, { -1 }, true)
  local scores = unit:matmul(unit:t()) / opt.temperature
  local of_others = -scores:fill_diagonal_(-math.huge):log_softmax(1)
  local nll = of_others:gather(1, moonring.arange(n):bitwise_xor(1):unsqueeze(1))[{ {}, 0 }]
  losses, pulls = nll:detach(), moonring.autograd.grad(nll:sum(), vectors)
end

for step in run:steps() do
  survey(step)
  run:log(run:update(step))
end
run:finish()
