--- A custom data source: endless rows from several files in turn, without rows whose answer is too
-- short. A row may also be a list of messages, { { role = "user", content = "Hi" }, .. }, or token
-- ids, { input_ids = .., labels = .. }. Checkpoints store the value that state() returns.
-- moonring scripts/examples/custom_source.lua model=DIR data=A.jsonl,B.jsonl sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, least = 1,
  template = "default", out = "runs/custom_source", sp = 1, strategy = "zigzag-ring", batch = 16,
  steps = 10, lr = 5e-5, cutoff = 2048, micro_tokens = 8192, save_steps = 500, resume = false }

local function source()
  local files, begin, turn = {}, {}, 0
  for path in opt.data:gmatch "[^,]+" do
    files[#files + 1] = moonring.data.rows(path, {
      filter = function(row) return #row.output >= opt.least end })
    begin[#begin + 1] = files[#files].state()
  end
  return moonring.data.source {
    next = function()
      turn = turn % #files + 1
      local row = files[turn].next()
      if row == nil then files[turn].load_state(begin[turn]) end -- end of file: start over
      return row or files[turn].next()
    end,
    state = function()
      local at = { turn = turn, files = {} }
      for i, file in ipairs(files) do at.files[i] = file.state() end
      return at
    end,
    load_state = function(at)
      turn = at.turn
      for i, file in ipairs(files) do file.load_state(at.files[i]) end
    end,
  }
end

-- The run, configured with the keys of `moonring help train`. Starts the ranks unless -n did.
local run = moonring.run.open({
  stage = "sft", finetuning_type = "full", logging_steps = 1, lr_scheduler_type = "constant",
  model_name_or_path = opt.model, template = opt.template, output_dir = opt.out,
  overwrite_output_dir = true, sequence_parallel_size = opt.sp,
  sequence_parallel_mode = opt.strategy, global_batch_size = opt.batch, max_steps = opt.steps,
  learning_rate = opt.lr, cutoff_len = opt.cutoff, micro_batch_tokens = opt.micro_tokens,
  save_steps = opt.save_steps, resume_from_checkpoint = opt.resume,
}, { data = source })

for step in run:steps() do
  run:log(run:update(step)) -- forward, backward, sum over ranks, clip, optimizer
  run:save_if_due()
end
run:finish()
