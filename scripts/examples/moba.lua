--- Mixture of block attention (MoBA, arXiv 2502.13189) in a published model: a query attends, in
-- each head, to the `top` blocks of `size` keys whose mean suits it best. Its own block is always
-- one of them. The last `full` blocks of the model keep full attention. The result is the same for
-- any sp, dp and strategy.
-- moonring scripts/examples/moba.lua model=DIR data=NAME dir=data size=512 top=3 sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data",
  template = "default", out = "runs/moba", size = 512, top = 3, full = 1, stage = "sft", lora = 0,
  sp = 1, strategy = "zigzag-ring", recompute = "block", zero = 0, batch = 16, steps = 10,
  lr = 5e-5, cutoff = 32768, micro_tokens = 32768 }

-- The mean key of each block, [blocks, Hk, D]. The last block may have fewer keys.
local function mean_keys(k)
  local whole = math.floor(k:size(0) / opt.size)
  local means = { k:narrow(0, 0, whole * opt.size):view(whole, opt.size, k:size(1), -1):mean(1) }
  if k:size(0) > whole * opt.size then
    means[2] = k:narrow(0, whole * opt.size, k:size(0) - whole * opt.size):mean(0, true)
  end
  return moonring.cat(means)
end

local function moba(tile) -- returns bool [queries, H, blocks]
  local means = mean_keys(tile.k):repeat_interleave(tile.q:size(1) / tile.k:size(1), 1)
  local scores = moonring.ops.einsum("qhd,bhd->qhb", { tile.q, means })
  local own = tile.places:floor_divide(opt.size):view(-1, 1, 1)
  local block = moonring.arange(means:size(0)):on(own)
  scores = scores:masked_fill(block:gt(own), -math.huge):masked_fill(block:eq(own), math.huge)
  local _, best = scores:topk(math.min(opt.top, means:size(0)), -1)
  return scores:zeros_like():scatter(-1, best, 1):gt(0)
end

local inside = {}
for block = 1, moonring.model.open_config(opt.model):facts().layers - opt.full do
  inside[block] = { blocks = moba, block_size = opt.size }
end

local run = moonring.run.open({
  stage = opt.stage, finetuning_type = opt.lora > 0 and "lora" or "full",
  lora_rank = opt.lora > 0 and opt.lora or nil, logging_steps = 1,
  lr_scheduler_type = "constant", disable_tqdm = true, recompute = opt.recompute,
  zero_stage = opt.zero,
  model_name_or_path = opt.model, dataset = opt.data, dataset_dir = opt.dir,
  template = opt.template, output_dir = opt.out, overwrite_output_dir = true,
  sequence_parallel_size = opt.sp, sequence_parallel_mode = opt.strategy,
  global_batch_size = opt.batch, max_steps = opt.steps, learning_rate = opt.lr,
  cutoff_len = opt.cutoff, micro_batch_tokens = opt.micro_tokens,
}, { objective = {
  level = "token",
  count = function(batch) return batch:count_targets() end,
  loss = function(_, log_probs) return -log_probs:sum() end,
  inside = inside,
} })
for step in run:steps() do run:log(run:update(step)) end
run:finish()
