--- Generates `new` tokens for each of `batch` prompts of `prompt` tokens, sampled or greedy. Prints
--- one JSON object: seconds and CPU seconds of the best of `repeats` runs, the peak memory of this
--- process, and the answers.
--
--   moonring rollout_speed.lua model=DIR batch=8 prompt=128 new=64 answers=1 precision=fp32
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, batch = 8, prompt = 128, new = 64,
  answers = 1, precision = "fp32", temperature = 0, top_p = 1, repeats = 3, one_by_one = false,
  products = "mkl", keep_casts = true }
local checkpoint = moonring.model.open(opt.model)
local model = moonring.model.load(checkpoint, { frozen = true, precision = opt.precision,
  products = opt.products })
local system = moonring.system

-- The same prompt ids as in rollout_speed.py.
local prompts = {}
for p = 1, opt.batch do
  local ids = {}
  for t = 1, opt.prompt do ids[t] = 100 + (p * 7919 + t * t * 104729) % 40000 end
  prompts[p] = { ids = ids, key = p }
end
local how = { max_new_tokens = opt.new, temperature = opt.temperature, top_p = opt.top_p,
  answers = opt.answers, sequences = opt.one_by_one and 1 or opt.batch * opt.answers,
  keep_casts = opt.keep_casts }

local seconds, cpu, answers = {}, {}, nil
for i = 1, opt.repeats do
  local began, cpu_began = system.clock(), os.clock()
  answers = model:rollout(prompts, how)
  seconds[i], cpu[i] = system.clock() - began, os.clock() - cpu_began
end
local sums, tokens = {}, 0
for _, of_prompt in ipairs(answers) do
  for _, answer in ipairs(of_prompt) do
    sums[#sums + 1] = table.concat(answer.ids, " ")
    tokens = tokens + #answer.ids
  end
end
local peak
for line in io.lines "/proc/self/status" do
  local kib = line:match "^VmHWM:%s*(%d+)"
  if kib then peak = tonumber(kib) * 1024 end
end
print(system.json_encode { best = math.min(unpack(seconds)), cpu = math.min(unpack(cpu)),
  tokens = tokens, peak = peak, answers = sums })
