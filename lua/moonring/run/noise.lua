--- What is random in training: dropout and NEFTune's noise. Counter-based, keyed by seed, step,
-- example and position, so that it is the same for any sp, after a recompute and after a resume.
local stages = require "moonring.choices.stages"

---@class moonring.noise
local noise = {}

--- Seed and strength of what is random, or nil where nothing is.
---@param c moonring.Configuration
---@return { seed: integer, neftune_alpha: number? }?
function noise.of(c)
  local stage = stages.of(c)
  local adapter = c.finetuning_type == "lora" and c.lora_dropout > 0
  local drops = stage.drops and (adapter or stage.head == "value")
  if not drops and not c.neftune_noise_alpha then return nil end
  return { seed = c.seed, neftune_alpha = c.neftune_noise_alpha }
end

return noise
