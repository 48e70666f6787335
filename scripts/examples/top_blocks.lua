--- Selected attention as in native sparse attention (NSA, arXiv 2502.11089): a query attends to
-- the first block of keys, to its own and the one before, and to the `top` blocks with the largest
-- share of a softmax over mean keys, summed over the query heads of a kv head, which read the same
-- blocks. The result is the same for any sp, dp and strategy.
-- moonring scripts/examples/top_blocks.lua model=DIR data=NAME dir=data size=64 top=13 sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data",
  template = "default", out = "runs/top_blocks", size = 64, top = 13, stage = "sft", lora = 0,
  sp = 1, strategy = "zigzag-ring", recompute = "block", zero = 0, batch = 16, steps = 10,
  lr = 5e-5, cutoff = 32768, micro_tokens = 32768 }

local function best_blocks(tile) -- returns bool [queries, Hk, blocks]
  local queries, keys, kv_heads = tile.q:size(0), tile.k:size(0), tile.k:size(1)
  local blocks = math.ceil(keys / opt.size)
  local sums = tile.k:new_zeros { blocks, kv_heads, tile.k:size(2) }
  sums:index_add_(0, moonring.arange(keys):floor_divide(opt.size):on(sums), tile.k)
  local q = tile.q:view(queries, kv_heads, -1, tile.q:size(2))
  local scores = moonring.ops.einsum("qkgd,bkd->qkgb", { q, sums / opt.size })
  local own = tile.places:floor_divide(opt.size):view(-1, 1, 1)
  local block = moonring.arange(blocks):on(own)
  local later = block:gt(own - 2) -- its own block and the one before are always chosen
  local shares = scores:masked_fill(later:unsqueeze(1), -1e4):softmax(-1):sum(2)
  local _, best = shares:masked_fill(later, -1):topk(math.min(opt.top, blocks), -1)
  local chosen = shares:zeros_like():scatter(-1, best, 1):gt(0)
  return chosen:logical_or(later):logical_or(block:eq(0))
end

local inside = {}
for block = 1, moonring.model.open_config(opt.model):facts().layers do
  inside[block] = { blocks = best_blocks, block_size = opt.size }
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
