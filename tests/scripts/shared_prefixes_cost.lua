--- Measures the time and memory of a step with and without shared prefixes, for
--- docs/sequence-parallelism.md. Run by hand:
--
--   OMP_NUM_THREADS=1 moonring shared_prefixes_cost.lua model=FOLDER case=dpo|group share=0|1
--
-- Seconds are CPU time of the process, which other processes disturb less.
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, case = "dpo", share = 0, prompt = 2048,
  answer = 256, answers = 8, steps = 1 }
local mesh = moonring.comm.mesh {}
local model = moonring.model.load(moonring.model.open(opt.model), { precision = "fp32" })
local attention = moonring.attention.create { mesh = mesh }
local rows = model:head():weight():shape()[1]

local function seconds()
  local fields = {}
  for field in io.open("/proc/self/stat"):read("*a"):match("%)%s(.*)"):gmatch "%S+" do
    fields[#fields + 1] = tonumber(field) or 0
  end
  return (fields[12] + fields[13]) / 100
end

local function text(first, tokens)
  local ids = {}
  for i = 1, tokens do ids[i] = (first * 31 + i * 17 + i * i) % (rows - 3) + 3 end
  return ids
end

local prompt = text(1, opt.prompt)
local function answered(first)
  local ids, labels = {}, {}
  for i, id in ipairs(prompt) do ids[i], labels[i] = id, -100 end
  for _, id in ipairs(text(first, opt.answer)) do ids[#ids + 1], labels[#labels + 1] = id, id end
  return { ids = ids, labels = labels, family = 0 }
end

local cases = {}

function cases.dpo()
  local pair, loss = { answered(2), answered(3) }, moonring.objectives.preference { beta = 0.1 }
  for _, answer in ipairs(pair) do answer.family = nil end
  local frozen = moonring.model.load(moonring.model.open(opt.model), { precision = "fp32",
    frozen = true })
  return { { documents = pair } }, {
    level = "sequence",
    needs_reference = true,
    count = function(batch) return batch:size() end,
    loss = function(batch, log_probs)
      return loss:loss { policy = log_probs, reference = batch.reference,
        targets = batch:document_targets(), places = batch:places() }
    end,
  }, require("moonring.run.reference").live(frozen)
end

function cases.group()
  local examples = {}
  for i = 1, opt.answers do examples[i] = answered(i + 3) end
  return examples, {
    level = "token",
    count = function(batch) return batch:count_targets() end,
    loss = function(batch, log_probs)
      local advantages = {}
      for i, place in ipairs(batch:places()) do advantages[i] = place % 3 - 1 end
      return -(log_probs * batch:cut(batch:of_tokens(advantages))):sum()
    end,
  }
end

local examples, objective, reference = cases[opt.case]()
local engine = moonring.engine.new { mesh = mesh, model = model, attention = attention,
  objective = objective, reference = reference }
local step = moonring.data.step { examples = examples, micro_batch_tokens = 1e9,
  share_prefixes = opt.share == 1 }
local tokens, least, loss = step:micro_batches()[1]:sequence():tokens(), math.huge, nil
for k = 1, opt.steps do
  local began = seconds()
  loss = engine:backward(step, k)
  model:parameters():clear_gradients()
  least = math.min(least, seconds() - began)
end
local peak = io.open("/proc/self/status"):read("*a"):match "VmHWM:%s+(%d+)" / 1024
print(("%s, share %d: %d tokens, %.2f s of CPU, peak %.0f MiB, loss %.6f"):format(opt.case,
  opt.share, tokens, least, peak, loss))
