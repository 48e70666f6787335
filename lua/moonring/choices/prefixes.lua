--- Shared prefixes (share_prefixes): what documents of a micro-batch begin with goes through the
-- model once, as a document of its own that they go on from. What it does not go with.
local errors = require "moonring.base.errors"
local stages = require "moonring.choices.stages"

---@class moonring.prefixes
local prefixes = {}

local KEY = "share_prefixes: "

-- What gives a token of a prompt other numbers in each document that has it.
local function random(c)
  if c.neftune_noise_alpha then return "neftune_noise_alpha" end
  if stages.of(c).drops and c.lora_dropout > 0 then return "lora_dropout" end
end

--- Ends the run where the key has nothing to share, or another key parts what is shared.
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
      "wanted ", why, " to be absent or 0")
  end
  if stage.balances and (c.moe_aux_loss_coef or 0) ~= 0 then
    errors.fail(KEY, "moe_aux_loss_coef counts each token of each document; wanted one of the two")
  end
  if c.shift_attn then
    errors.fail(KEY, "shift_attn: its groups say who sees whom; wanted one of the two")
  end
end

--- Ends the run where the model gives a token of a prompt other numbers in each document.
---@param c moonring.Configuration
---@param facts moonring.CheckpointFacts
function prefixes.check_model(c, facts)
  if c.share_prefixes and facts.rotary_depends_on_length then
    errors.fail(KEY, "the rotary embedding of this ", facts.architecture, " depends on how long a ",
      "document is (rope_scaling), so that no two documents begin alike")
  end
end

return prefixes
