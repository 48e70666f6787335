--- Supervised fine-tuning on the answers of conversations.
local custom_pieces = require "moonring.choices.custom_pieces"
local errors = require "moonring.base.errors"
local native = require "moonring.native.objectives"
local router_groups = require "moonring.choices.router_groups"

-- Keys that weight the loss of tokens; at most one may be set.
local WEIGHINGS = { "use_dft_loss", "use_eaft_loss", "use_asft_loss", "label_smoothing_factor" }

local sft = { name = "sft", reads = "sft", documents = 1, drops = true, balances = "sum",
  head = "logits", about = "supervised fine-tuning on the answers of conversations" }

-- Adds asft_alpha x KL(reference || policy), summed over predictions, to an objective's loss.
local function anchor(o, c, policy)
  local of_log_probs = o.loss
  o.needs_reference, o.of_targets = "distributions", true
  o.values = function(batch, hidden)
    local of = batch.reference
    return { log_probs = batch:token_log_probs(policy, hidden, o),
      divergence = batch:divergence(policy, hidden, { kind = "forward",
        reference = of.reference, hidden = of.hidden }) }
  end
  o.loss = function(batch, of)
    local sum, metrics = of_log_probs(batch, of.log_probs)
    local divergence = of.divergence:to("fp64"):sum()
    metrics.kl = { divergence, batch.targets:gt(-1):to("fp64"):sum() }
    return sum + c.asft_alpha * divergence, metrics
  end
  return o
end

--- The objective: the sum of -log p over the labels; the key `count` chooses its divisor, the
--- number of labels or of targets.
function sft.objective(c, policy)
  local smoothing = c.label_smoothing_factor > 0 and c.label_smoothing_factor or nil
  local loss = native.sft { count = c.count, dft = c.use_dft_loss or c.use_asft_loss,
    eaft = c.use_eaft_loss, eaft_alpha = c.eaft_alpha }
  local o = {
    level = "token",
    label_smoothing = smoothing,
    surrogate = c.use_dft_loss or c.use_eaft_loss or c.use_asft_loss, -- weights are constants
    statistics = c.use_eaft_loss and { "top_entropy" } or nil,
    count = function(batch) return loss:count(batch:labels(), batch:lengths()) end,
    loss = function(batch, log_probs)
      local sum, metrics = loss:loss(log_probs, batch.targets, batch.statistics)
      return sum, { token_accuracy = metrics.token_accuracy }
    end,
  }
  return c.use_asft_loss and anchor(o, c, policy) or o
end

function sft.compares(c) return c.use_asft_loss end

-- The load-balancing loss is computed over the examples of one device's batch, as in Transformers.
sft.group = router_groups.of

function sft.depends() return {} end

function sft.check(c)
  if (c.packing or c.neat_packing) and c.cutoff_len < 2 then
    errors.fail "cutoff_len: expected at least 2 with packing, which lowers it by 1"
  end
  if c.stage == "sft" and c.packing and not c.neat_packing then
    local flash = tostring(c.flash_attn):find "^fa%d"
    c.notes[#c.notes + 1] = "packing: the texts of a row attend to each other, as in LLaMA-Factory"
      .. (flash and " but for its " .. c.flash_attn .. " over batches of one row" or "")
      .. "; neat_packing separates them, and without either documents are packed exactly"
  end
  local chosen = {}
  for _, name in ipairs(WEIGHINGS) do
    if c[name] and c[name] ~= 0 then chosen[#chosen + 1] = name end
  end
  if #chosen > 1 then errors.fail(table.concat(chosen, " and "), " exclude one another") end
  local uses_reference = c.use_asft_loss or custom_pieces.of(c, "objective")
  if c.stage == "sft" and c.ref_model and not uses_reference then
    errors.fail("ref_model: in stage sft only use_asft_loss uses it, and a custom objective with ",
      "needs_reference")
  end
  if c.train_on_prompt and c.mask_history then
    errors.fail "train_on_prompt and mask_history exclude one another"
  end
end

return sft
