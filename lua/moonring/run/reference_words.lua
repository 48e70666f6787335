--- Makes a log line that names the run's reference model, and says whether the policy is equal to
-- it at the first step. If it is not, rewards and divergences are not 0 at step 1, and DPO's loss
-- is not ln 2. If the training of an adapter continues, the policy has the adapter and the
-- reference has not, as in LLaMA-Factory and TRL (hiyouga/LlamaFactory#8974).
local adapter_kinds = require "moonring.choices.adapter_kinds"

---@class moonring.reference_words
local reference_words = {}

-- Names a model and the adapters that are merged into it.
local function with(model, adapters)
  if #adapters == 0 then return model end
  return model .. " with " .. table.concat(adapters, " and ") .. " merged into it"
end

-- Whether the loss is ln 2 if policy and reference are equal.
local function at_equality(c)
  return (c.stage == "dpo" or c.stage == "online_dpo") and c.pref_loss == "sigmoid"
    and c.pref_ftx == 0 and c.pref_bco_weight == 0 and not c.ld_alpha
end

local function list_of(paths)
  local list = {}
  for i, path in ipairs(paths or {}) do list[i] = path end
  return list
end

-- Returns the adapters that are merged into the base, and the one whose training continues.
local function split(c)
  local merged = list_of(c.adapter_name_or_path)
  local goes_on = adapter_kinds.has(c) and not c.create_new_adapter and table.remove(merged) or nil
  return merged, goes_on
end

-- Makes the line for a ref_model: compares it with the model that the policy starts from.
local function of_another(c)
  local name = with(c.ref_model, list_of(c.ref_model_adapters))
  local begins = with(c.model_name_or_path, list_of(c.adapter_name_or_path))
  if name == begins then
    return ("reference: %s, as the policy begins"):format(name)
  end
  local what = at_equality(c) and "step 1's loss is ln 2 only where the two are the same model"
    or "they need not be equal at step 1"
  return ("reference: %s; the policy begins as %s: %s"):format(name, begins, what)
end

--- The reference's name: a model, and the adapters that are merged into it.
---@param c moonring.Configuration
---@return string
function reference_words.name(c)
  if c.ref_model then return with(c.ref_model, list_of(c.ref_model_adapters)) end
  return with(c.model_name_or_path, (split(c)))
end

--- The log line.
---@param c moonring.Configuration
---@return string
function reference_words.of(c)
  if c.ref_model then return of_another(c) end
  local merged, goes_on = split(c)
  local name = with(c.model_name_or_path, merged)
  if not goes_on then
    return ("reference: %s, as the policy begins%s"):format(name,
      at_equality(c) and ", so that step 1's loss is ln 2" or "")
  end
  return ("reference: %s, without the adapter %s, whose training continues: it is not the policy "
    .. "as it begins, so %s. create_new_adapter: true merges the adapter into both, and trains a "
    .. "new one; ref_model and ref_model_adapters name another reference"):format(name, goes_on,
    at_equality(c) and "step 1's loss is not ln 2" or "the two differ at step 1 already")
end

return reference_words
