--- The random numbers of a training forward: dropout and NEFTune's noise. They come from a
-- counter-based generator, keyed by seed, step, example and position. So they are the same for any
-- sp, when a block is recomputed, and after a resume.
local stages = require "moonring.choices.stages"

---@class moonring.noise
local noise = {}

--- The settings of the random numbers: the seed and NEFTune's strength; nil if the run uses none.
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
