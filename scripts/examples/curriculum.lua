--- A curriculum by length: in the first `easy` epochs the examples are sorted from the shortest to
-- the longest; later epochs are shuffled by a hash. The order depends only on the lengths and the
-- epoch, so the steps are the same for any sp, dp and micro-batches, and after a resume.
-- moonring scripts/examples/curriculum.lua model=DIR data=NAME dir=data sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data",
  template = "default", out = "runs/curriculum", sp = 1, strategy = "zigzag-ring", batch = 16,
  epochs = 3, easy = 1, lr = 5e-5, cutoff = 2048, micro_tokens = 8192, save_steps = 500,
  resume = false }

local function order(lengths, epoch)
  local places, key = {}, {}
  for place, length in ipairs(lengths) do
    places[place] = place
    key[place] = epoch < opt.easy and length or (place + epoch) * 7919 % 10007
  end
  table.sort(places, function(a, b)
    if key[a] ~= key[b] then return key[a] < key[b] end
    return a < b
  end)
  return places
end

-- The run, configured with the keys of `moonring help train`. Starts the ranks unless -n did.
local run = moonring.run.open({
  stage = "sft", finetuning_type = "full", logging_steps = 1, lr_scheduler_type = "constant",
  disable_tqdm = true, -- the loop prints its own lines
  model_name_or_path = opt.model, dataset = opt.data, dataset_dir = opt.dir,
  template = opt.template, output_dir = opt.out, overwrite_output_dir = true,
  sequence_parallel_size = opt.sp, sequence_parallel_mode = opt.strategy,
  global_batch_size = opt.batch, num_train_epochs = opt.epochs, learning_rate = opt.lr,
  cutoff_len = opt.cutoff, micro_batch_tokens = opt.micro_tokens, save_steps = opt.save_steps,
  resume_from_checkpoint = opt.resume,
}, { order = order })

for step, k in run:steps() do
  local update = run:update(step) -- forward, backward, sum over ranks, clip, optimizer
  run:log(update)
  if run.mesh:rank() == 0 then
    print(("step %d  loss %.6f  tokens an example %.1f"):format(k, update.loss,
      step:tokens() / step:size()))
  end
  run:evaluate_if_due()
  run:save_if_due()
end
run:finish()
