--- The metadata of a model card: the YAML at its beginning, which model hubs read. Its fields are
-- those of Transformers' Trainer and, for an adapter, of PEFT.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local dataset_names = require "moonring.data.dataset_names"
local system = require "moonring.native.system"

---@class moonring.card_metadata
local card_metadata = {}

local function tags_of(c)
  local tags = { "moonring", c.finetuning_type, c.stage, "generated_from_trainer" }
  if adapter_kinds.has(c) then
    table.insert(tags, 1, "base_model:adapter:" .. c.model_name_or_path)
    tags[#tags + 1] = "transformers" -- PEFT's tag of adapters for its models
  end
  return tags
end

--- The metadata, between lines of three dashes.
---@param c moonring.Configuration
---@param name string of the model
---@param last? table<string, number> metrics of the last evaluation, by their "eval_" names
---@return string
function card_metadata.text(c, name, last)
  local lines, adapted = { "---" }, adapter_kinds.has(c)
  local function field(key, value) lines[#lines + 1] = key .. ": " .. value end
  local function list(key, values)
    if #values == 0 then return end
    lines[#lines + 1] = key .. ":"
    for _, value in ipairs(values) do
      local is_plain = value:find "^%a[%w_]*$" -- all others are quoted, as JSON
      lines[#lines + 1] = "- " .. (is_plain and value or system.json_encode(value))
    end
  end
  field("library_name", adapted and "peft" or "transformers")
  field("license", "other")
  field("base_model", system.json_encode(c.model_name_or_path))
  list("tags", tags_of(c))
  list("datasets", dataset_names.on_hub(c))
  list("metrics", last and last.eval_accuracy and { "accuracy" } or {})
  if adapted then field("pipeline_tag", "text-generation") end
  lines[#lines + 1] = "model-index:\n- name: " .. system.json_encode(name) .. "\n  results: []\n---"
  return table.concat(lines, "\n")
end

return card_metadata
