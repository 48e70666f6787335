--- Whether all ranks of a run were given one configuration: where they were started one by one, or
-- by several launchers, they may not have been, and would train apart from one another without a
-- word.
local config = require "moonring.config"
local keys = require "moonring.config.keys"
local system = require "moonring.native.system"

---@class moonring.agreement
local agreement = {}

-- What machines may differ in: where things lie, and what a machine has.
local LOCAL = {}
for _, name in ipairs { "model_name_or_path", "adapter_name_or_path", "ref_model",
  "ref_model_adapters", "dataset_dir", "tokenized_path", "output_dir", "resume_from_checkpoint",
  "offload_dir", "activation_dir", "deepspeed", "new_special_tokens_config",
    "preprocessing_num_workers", "memory_limit", "memory_check", "use_cpu", "ddp_timeout",
    "max_restarts" } do
  LOCAL[name] = true
end

-- Every key that acts, but those.
local function shared(c)
  local values = {}
  for _, section in ipairs(keys) do
    for _, row in ipairs(section.rows) do
      local value = c[row[1]]
      if row[1] == "template" and tostring(value):find "%.lua$" then value = "a file" end
      if value ~= nil and not (LOCAL[row[1]] or row.only or row.ignored or row.warned) then
        values[row[1]] = type(value) == "table" and system.json_encode(value) or tostring(value)
      end
    end
  end
  return values
end

--- Refuses (INVALID_ARGUMENT, naming keys, values and ranks) ranks that were given other values of
--- keys; but for where things lie and what a machine has. Collective over all ranks.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
function agreement.check(c, mesh)
  if mesh:size() == 1 then return end
  local all, changes = mesh:gather(system.json_encode(shared(c))), {}
  local first = system.json_decode(all[1])
  for rank = 2, #all do
    local values = all[rank] ~= all[1] and system.json_decode(all[rank]) or first
    for _, section in ipairs(keys) do
      for _, row in ipairs(section.rows) do
        local a, b = first[row[1]], values[row[1]]
        if a ~= b then
          changes[#changes + 1] = ("%s is %s on rank 0, %s on rank %d"):format(row[1], a
            or "nothing", b or "nothing", rank - 1)
        end
      end
    end
    if #changes > 0 then
      config.fail("ranks were given other configurations: ", table.concat(changes, "; "))
    end
  end
end

return agreement
