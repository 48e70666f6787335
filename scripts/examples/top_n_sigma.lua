--- Sampling by top-n-sigma (Tang et al., arXiv 2411.07641): only tokens whose logit is at most n
-- standard deviations below the greatest logit. A hook on the logits of the batch; keys and values
-- stay cached. Answers are the same for any sp and any number of sequences at a time.
-- moonring scripts/examples/top_n_sigma.lua model=DIR n=1 temperature=2 prompt="The moon" sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, n = 1, temperature = 1.5, answers = 3,
  tokens = 24, seed = 0, sequences = 32, sp = 1, precision = "fp32", prompt = "The moon" }

moonring.launch(opt.sp)
local mesh = moonring.comm.mesh { sp = opt.sp }
local checkpoint = moonring.model.open(opt.model)
local model = moonring.model.load(checkpoint, { frozen = true, precision = opt.precision })
local tokenizer = moonring.data.tokenizer(checkpoint)

-- A row's result depends on that row only, so that answers do not depend on the batch.
local function top_n_sigma(logits)
  local least = logits:amax({ 1 }, true) - logits:std(1, true, true) * opt.n
  return logits:masked_fill(logits:lt(least), -math.huge)
end

local answers = model:rollout({ { ids = tokenizer:encode(opt.prompt) } }, {
  logits = top_n_sigma, answers = opt.answers, max_new_tokens = opt.tokens,
  temperature = opt.temperature, seed = opt.seed, sequences = opt.sequences,
  attention = moonring.attention.create { mesh = mesh } })[1]
if mesh:rank() == 0 then
  for _, each in ipairs(answers) do
    moonring.terminal.print(opt.prompt .. tokenizer:decode(each.ids, true))
  end
end
