--- Settings of accelerate (key accelerator_config). Settings that would change results are refused.
-- A note lists those that have no effect.
local engine_settings = require "moonring.config.engine_settings"

---@class moonring.accelerator
local accelerator = {}

local NO, YES = { [false] = true }, { [true] = true }
local IDLE = { { why = "one thread prepares steps ahead, and no example is repeated to fill one",
    defaults = { even_batches = true, non_blocking = false, use_configured_state = false,
      dispatch_batches = false } },
  { why = "gradients are summed once a step", defaults = {
      ["gradient_accumulation_kwargs.sync_each_batch"] = false,
      ["gradient_accumulation_kwargs.adjust_scheduler"] = true,
      ["gradient_accumulation_kwargs.sync_with_dataloader"] = true,
    } } }

--- Checks c.accelerator_config. Errors: INVALID_ARGUMENT, naming key, file and setting.
---@param c moonring.Configuration
function accelerator.apply(c)
  local s = engine_settings.open(c, "accelerator_config")
  if not s then return end
  s:refuse("split_batches", NO, "per_device_train_batch_size is of a rank; global_batch_size "
    .. "counts all ranks")
  s:refuse("use_seedable_sampler", YES, "the order of examples is a function of seed and epoch")
  s:agree("gradient_accumulation_kwargs.num_steps", "gradient_accumulation_steps",
    c.gradient_accumulation_steps)
  s:rest(IDLE)
end

return accelerator
