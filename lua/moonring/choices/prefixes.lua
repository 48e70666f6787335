--- Checks of share_prefixes. With this key, documents of a micro-batch that begin with the same
-- tokens share one forward of them: the common prefix becomes a document, the parent of the others.
local errors = require "moonring.base.errors"
local stages = require "moonring.choices.stages"

---@class moonring.prefixes
local prefixes = {}

local KEY = "share_prefixes: "

-- The key that adds random noise to activations, so that those of a shared prefix would differ
-- between documents; nil if there is no noise.
local function random(c)
  if c.neftune_noise_alpha then return "neftune_noise_alpha" end
  if stages.of(c).drops and c.lora_dropout > 0 then return "lora_dropout" end
end

--- Refuses share_prefixes if the stage does not support it, or if noise makes the prefixes differ.
---@param c moonring.Configuration
function prefixes.check(c)
  if not c.share_prefixes then return end
  local stage = stages.of(c)
  if not stage.shares then
    errors.fail(KEY, "an example of stage ", c.stage,
      " is one document: there is nothing to share")
  end
  local why = random(c)
  if why then
    errors.fail(KEY, "with ", why, " a token of a prompt differs from document to document; ",
      "expected ", why, " to be absent or 0")
  end
  if stage.balances and (c.moe_aux_loss_coef or 0) ~= 0 then
    errors.fail(KEY,
      "moe_aux_loss_coef counts each token of each document; expected one of the two")
  end
  if c.shift_attn then
    errors.fail(KEY, "shift_attn: it has its own attention mask; expected one of the two")
  end
end

--- Refuses share_prefixes for a model whose activations of a prompt depend on the document's
--- length.
---@param c moonring.Configuration
---@param facts moonring.CheckpointFacts
function prefixes.check_model(c, facts)
  if c.share_prefixes and facts.rotary_depends_on_length then
    errors.fail(KEY, "the rotary embedding of this ", facts.architecture, " depends on the ",
      "document's length (rope_scaling), so documents cannot share a prefix")
  end
end

return prefixes
