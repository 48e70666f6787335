--- Contrastive learning (InfoNCE: van den Oord et al. 2018, arXiv 1807.03748): a document's vector
-- is the mean of its hidden states, and the two answers of a pair are to find each other among all
-- documents of the step. The vectors of the whole step are made first, without a graph, for the
-- gradient of each (Gao et al. 2021, arXiv 2101.06983): so the loss is that of one large batch, the
-- same for any sp, dp and micro-batches.
-- moonring scripts/examples/contrastive.lua model=DIR data=PAIRS dir=data sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data",
  template = "default", out = "runs/contrastive", sp = 1, strategy = "zigzag-ring", batch = 16,
  steps = 10, lr = 5e-5, cutoff = 2048, micro_tokens = 8192, temperature = 0.1 }
local pulls, terms -- of the step's documents: d loss / d vector [N, D], and each one's loss [N]

local function documents_of(batch) -- their places in the step: a pair is two of them
  local rows = {}
  for _, place in ipairs(batch:places()) do
    rows[#rows + 1], rows[#rows + 2] = 2 * place, 2 * place + 1
  end
  return moonring.tensor(rows, "int64")
end

local contrastive = {
  level = "sequence",
  count = function(batch) return 2 * batch:size() end,
  values = function(batch, hidden) -- sums over documents, wherever their tokens lie
    return moonring.ops.normalize and batch:document_sums(hidden)
  end,
  loss = function(batch, vectors)
    local rows = documents_of(batch):on(vectors)
    local pulled = (vectors * pulls[rows]):sum()
    return pulled - pulled:detach() + terms[rows]:sum() -- the loss's value, and its gradient
  end,
}
