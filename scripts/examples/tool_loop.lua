--- A tool loop trained with GRPO (as in Search-R1, arXiv 2503.09516): where the model has written
-- an expression and "=", a calculator writes its value, and the model continues. The tool's values
-- are not trained on. Completions depend only on the seed and the prompt, not on sp and dp.
-- moonring scripts/examples/tool_loop.lua model=DIR data=NAME dir=data sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data",
  template = "default", out = "runs/tool_loop", sp = 1, batch = 16, group = 4, steps = 10,
  tokens = 64, turns = 4, lr = 1e-5, stop = "=", fp64 = false, resume = false }

-- The tool: called when a turn ends. Returning nothing means that the completion is finished.
local function calculator(completion)
  local text = completion.text
  if text:sub(-#opt.stop) ~= opt.stop then return nil end -- the model has ended its answer
  local run = load("return " .. text:sub(1, -#opt.stop - 1):match "[%d.+*/() -]*$", "=tool")
  local done, value = pcall(run or error)
  return done and value and (" %g\n"):format(value) or " error\n"
end

-- The reward: 1 if the completion has the row's answer, less 0.1 for each error of the tool.
local function reward(text, columns)
  local right = text:find(tostring(columns.answer), 1, true) and 1 or 0
  return right - 0.1 * select(2, text:gsub(" error\n", ""))
end

local function rollout(run, prompts)
  local groups = run.rollouts:complete(prompts, { continue = calculator, stop_texts = { opt.stop },
    max_turns = opt.turns })
  for p, group in ipairs(groups) do
    local mean = 0
    for _, each in ipairs(group) do
      each.reward = reward(each.text, prompts[p].columns)
      mean = mean + each.reward / #group
    end
    for _, each in ipairs(group) do each.advantage = each.reward - mean end
  end
  return groups
end

local run = moonring.run.open({ stage = "grpo", finetuning_type = "full", logging_steps = 1,
  lr_scheduler_type = "constant", model_name_or_path = opt.model, dataset = opt.data,
  dataset_dir = opt.dir, template = opt.template, output_dir = opt.out,
  overwrite_output_dir = true, save_steps = 1, sequence_parallel_size = opt.sp, fp64 = opt.fp64,
  global_batch_size = opt.batch, num_generations = opt.group, max_completion_length = opt.tokens,
  max_steps = opt.steps, learning_rate = opt.lr, log_completions = true,
  resume_from_checkpoint = opt.resume }, { rollout = rollout })
for step in run:steps() do
  run:log(run:update(step))
  run:save_if_due()
end
run:finish()
