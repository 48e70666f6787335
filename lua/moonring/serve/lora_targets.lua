--- Which linear maps an adapter gets, by the switches of lora_config.
local errors = require "moonring.base.errors"

---@class moonring.serve.lora_targets
local lora_targets = {}

-- Last parts of the names of the maps of MLPs and experts, in all families of models.
local MLP = { gate_proj = true, up_proj = true, down_proj = true, gate_up_proj = true, w1 = true,
  w2 = true, w3 = true }

-- Last parts of the names of routers, which choose experts and are not adapted.
local ROUTERS = { gate = true, router = true, shared_expert_gate = true }

-- The kind of a map, by the last part of its module's name: "mlp", "attn" (also of mixers in
-- attention's place), or nil.
local function kind_of(module, last)
  if MLP[last] then return "mlp" end
  return not ROUTERS[last] and module:find "layers%.%d+%." and "attn" or nil
end

--- The targets of an adapter, for moonring.model.adapt: ends of the names of modules. Errors:
--- INVALID_ARGUMENT if nothing would be trained.
---@param checkpoint moonring.Checkpoint
---@param switches { train_attn: boolean, train_mlp: boolean, train_unembed: boolean }
---@return string[]
---@return string? note what train_mlp cannot train, if anything
function lora_targets.of(checkpoint, switches)
  local wanted = { attn = switches.train_attn, mlp = switches.train_mlp }
  local targets, seen = {}, {}
  for _, map in ipairs(checkpoint:linear_maps()) do
    local last = map.module:match "([^.]+)$"
    local kind = kind_of(map.module, last)
    if kind and wanted[kind] and not seen[last] then
      seen[last], targets[#targets + 1] = true, last
    end
  end
  if switches.train_unembed then targets[#targets + 1] = "lm_head" end
  if #targets == 0 then
    errors.fail("lora_config: nothing would be trained: train_attn, train_mlp and train_unembed ",
      "are false, or the model has no such linear maps; set one of them to true")
  end
  local stacked = switches.train_mlp and checkpoint:facts().experts_stacked
  return targets, stacked and "train_mlp: this model stores the experts of a layer in one tensor, "
    .. "which gets no adapter; rank 0 trains all weights" or nil
end

return lora_targets
