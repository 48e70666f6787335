--- Kinds of fine-tuning that leave the model's weights as they are, and train an adapter beside
-- them.

---@class moonring.adapter_kinds
---@field all string[] their names, as finetuning_type has them; a row of keys names them as where
---   it acts
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

--- The linear modules that the adapter is put on. LLaMA-Factory 0.9.5 reads oft_target and takes
--- lora_target for OFT too: so where oft_target says nothing.
---@param c moonring.Configuration
---@return string[] { "all" }, or names
function adapter_kinds.target(c)
  local target = c.lora_target
  if c.finetuning_type == "oft" and not says_all(c.oft_target) then target = c.oft_target end
  if says_all(target) then return { "all" } end
  return type(target) == "table" and target or { target }
end

return adapter_kinds
