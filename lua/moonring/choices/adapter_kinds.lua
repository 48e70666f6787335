--- Fine-tuning types that keep the model's weights frozen and train an adapter.

---@class moonring.adapter_kinds
--- `all`: the values of finetuning_type that train an adapter. Rows of the key tables also use this
--- list, to state for which types a key has an effect.
---@field all string[]
local adapter_kinds = {}

adapter_kinds.all = { "lora", "oft" }

--- Whether a run trains an adapter.
---@param c moonring.Configuration
---@return boolean
function adapter_kinds.has(c)
  for _, kind in ipairs(adapter_kinds.all) do
    if kind == c.finetuning_type then return true end
  end
  return false
end

local function says_all(target)
  return target == "all" or (#target == 1 and target[1] == "all")
end

--- The linear modules that get the adapter. LLaMA-Factory 0.9.5 reads oft_target but then uses
--- lora_target for OFT. So lora_target is used for OFT, too, unless oft_target names modules.
---@param c moonring.Configuration
---@return string[] { "all" }, or names
function adapter_kinds.target(c)
  local target = c.lora_target
  if c.finetuning_type == "oft" and not says_all(c.oft_target) then target = c.oft_target end
  if says_all(target) then return { "all" } end
  return type(target) == "table" and target or { target }
end

return adapter_kinds
