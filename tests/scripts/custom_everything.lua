--- A run with a user-defined module, optimizer, schedule, data source and component, which
-- custom_everything_test.cc interrupts and resumes.
local moonring = require "moonring"
local nn, ops = moonring.nn, moonring.ops
local opt = moonring.flags { model = moonring.required, dir = "", data = "", template = "default",
  cutoff = 160, batch = 4, lr = 1e-3, save_steps = 1, out = "out", sp = 1, zero = 0, steps = 6,
  fp64 = false, resume = false }
local dtype = opt.fp64 and "fp64" or "fp32"

-- A small network applied to the final hidden states.
local width = moonring.model.open_config(opt.model):facts().hidden_size
local adapter = nn.sequential { nn.rms_norm(width, { dtype = dtype }),
  nn.linear(width, 8, { seed = 1, dtype = dtype }), ops.tanh,
  nn.lora(nn.linear(8, width, { seed = 2, dtype = dtype }), 8, width, { rank = 2, seed = 3,
    dtype = dtype }) }

local function objective(_, model)
  return {
    level = "token",
    parameters = adapter:parameters "adapter",
    count = function(batch) return batch:count_targets() end,
    values = function(batch, hidden)
      return batch:token_log_probs(model, hidden + moonring.autograd.checkpoint(adapter, hidden))
    end,
    loss = function(_, log_probs) return -log_probs:sum() end,
    save = function(folder, how) adapter:save(folder .. "/custom_adapter.safetensors", how) end,
  }
end

-- Gradient descent with momentum; its state is sharded like the weight.
local optimizer = moonring.optimizer {
  name = "momentum", moments = 1,
  state = function(p) return { momentum = p:zeros() } end,
  step = function(p, gradient, state, lr)
    state.momentum:mul_(0.9):add_(gradient)
    p.weight:add_(state.momentum, { alpha = -lr })
  end,
}

-- The learning rate halves every three steps; checkpoints save the schedule's counter.
local schedule = { asked = 0 }
function schedule.at(self, k)
  self.asked = self.asked + 1
  return opt.lr * 0.5 ^ math.floor(k / 3)
end
function schedule.state(self) return { asked = self.asked } end
function schedule.load_state(self, state) self.asked = state.asked end

-- A source of endless rows.
local row = 0
local source = moonring.data.source {
  next = function()
    row = row + 1
    return { instruction = ("how much is %d"):format(row * 37 % 101),
      output = ("it is %d"):rep(row % 5 + 1, " "):format(row, row, row, row, row) }
  end,
  state = function() return { row = row } end,
  load_state = function(state) row = state.row end,
}

local run = moonring.run.open({
  stage = "sft", finetuning_type = "full", logging_steps = 1, fp64 = opt.fp64,
  model_name_or_path = opt.model, template = opt.template, output_dir = opt.out,
  overwrite_output_dir = true, sequence_parallel_size = opt.sp, zero_stage = opt.zero,
  global_batch_size = opt.batch, max_steps = opt.steps, learning_rate = opt.lr,
  cutoff_len = opt.cutoff, save_steps = opt.save_steps, resume_from_checkpoint = opt.resume,
}, { objective = objective, optimizer = optimizer, schedule = schedule, data = source })

-- A component whose tensor is saved in checkpoints: the sum of all losses so far.
local total = { sum = moonring.zeros(1, { dtype = "fp64" }) }
function total:state() return { sum = self.sum } end
function total:load_state(state) self.sum = state.sum:clone() end
run:track("total", total)

for step in run:steps() do
  local update = run:update(step)
  total.sum:add_(update.loss)
  update.total = total.sum:item()
  run:log(update)
  run:save_if_due()
end
run:finish()
