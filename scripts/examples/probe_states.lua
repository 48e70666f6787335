--- A reward probe: trains a linear map of the hidden states after one layer to tell which answer of
-- a pair is preferred. The model is frozen, and its forward stops after that layer. The result is
-- the same for any sp, dp and micro-batches.
-- moonring scripts/examples/probe_states.lua model=DIR data=PAIRS dir=data layer=12 sp=2
local moonring = require "moonring"
local objectives = moonring.objectives
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data",
  template = "default", out = "runs/probe", layer = 1, sp = 1, strategy = "zigzag-ring",
  batch = 16, steps = 10, lr = 1e-2, micro_tokens = 8192 }

local width = moonring.model.open_config(opt.model):facts().hidden_size
local weight = moonring.comm.parameter("probe.weight", moonring.zeros(1, width))
local bias = moonring.comm.parameter("probe.bias", moonring.zeros(1))

local function probe(_, model)
  for _, each in ipairs(model:parameters():list()) do each:set_trainable(false) end
  return {
    level = "sequence",
    upto = opt.layer,
    parameters = moonring.comm.parameters { weight, bias },
    count = function(batch) return batch:size() end,
    -- The score of each answer, at its last token; `hidden`: the hidden states after the layer.
    values = function(batch, hidden)
      return objectives.document_scores(hidden, weight, bias, batch.layout, batch.mesh)
    end,
    loss = function(_, scores) return objectives.reward_loss(scores) end,
    save = function(folder, how)
      local tensors = { ["probe.weight"] = weight:weight(), ["probe.bias"] = bias:weight() }
      if how.write then moonring.safetensors.write(folder .. "/probe.safetensors", tensors) end
    end,
  }
end

local run = moonring.run.open({
  stage = "rm", finetuning_type = "full", logging_steps = 1, lr_scheduler_type = "constant",
  disable_tqdm = true, model_name_or_path = opt.model, dataset = opt.data, dataset_dir = opt.dir,
  template = opt.template, output_dir = opt.out, overwrite_output_dir = true,
  sequence_parallel_size = opt.sp, sequence_parallel_mode = opt.strategy,
  global_batch_size = opt.batch, max_steps = opt.steps, learning_rate = opt.lr,
  micro_batch_tokens = opt.micro_tokens,
}, { objective = probe })

for step, k in run:steps() do
  local update = run:update(step)
  run:log(update)
  if run.mesh:rank() == 0 then
    local accuracy = moonring.metrics.means(update.metrics).accuracy
    print(("step %d  loss %.6f  accuracy %.4f  grad_norm %.6f"):format(k, update.loss, accuracy,
      update.grad_norm))
  end
end
run:finish()
