--- Fine-tuning types that keep the model's weights frozen and train an adapter.

---@class moonring.adapter_kinds
---@field all string[] values of finetuning_type; rows of the key tables use them too, to state for
---   which types a key has an effect
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

--- The linear modules that get the adapter. LLaMA-Factory 0.9.5 reads oft_target but uses
--- lora_target for OFT too, so lora_target is used if oft_target is "all".
---@param c moonring.Configuration
---@return string[] { "all" }, or names
function adapter_kinds.target(c)
  local target = c.lora_target
  if c.finetuning_type == "oft" and not says_all(c.oft_target) then target = c.oft_target end
  if says_all(target) then return { "all" } end
  return type(target) == "table" and target or { target }
end

return adapter_kinds
