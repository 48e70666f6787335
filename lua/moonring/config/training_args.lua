--- Writes and reads training_args.yaml, the complete configuration of a run. The command
-- `moonring train training_args.yaml` repeats the run.
local keys = require "moonring.config.keys"
local system = require "moonring.native.system"

---@class moonring.training_args
local training_args = {}

-- Formats numbers and texts as JSON, which is valid YAML.
local function written(value)
  if type(value) == "number" and value == math.floor(value) and math.abs(value) < 2 ^ 53 then
    return ("%d"):format(value)
  end
  return system.json_encode(value)
end

-- Keys for which the run computes a value from the model and the data if the user sets none.
local SETTLED = { template = true, resize_vocab = true }

--- The text of training_args.yaml: all keys that have an effect, with their values. `before` names
--- earlier runs that share checkpoints with this run, and the last step that is shared with each.
---@param c moonring.Configuration
---@param ranks integer number of ranks of the run
---@param run string the run's name, read back by of_run
---@param before? table<string, integer> by run: the last shared step
---@return string
function training_args.text(c, ranks, run, before)
  local lines = { ("# Again: moonring -n %d train training_args.yaml"):format(ranks), "# Run "
    .. run, "# Started by " .. system.parent_id() }
  for earlier, step in pairs(before or {}) do
    lines[#lines + 1] = ("# After step %d of run %s"):format(step, earlier)
  end
  for _, section in ipairs(keys) do
    local heading = "\n# " .. section.title
    for _, row in ipairs(section.rows) do
      local name, value = row[1], c[row[1]]
      if SETTLED[name] and (c.given[name] == nil or c.given[name] == system.null) then
        value = nil
      end
      if value == nil and row.nullable then value = system.null end
      if value ~= nil and keys.is_written(row) then
        if heading then lines[#lines + 1], heading = heading, nil end
        lines[#lines + 1] = name .. ": " .. (value == system.null and "null" or written(value))
      end
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

--- Reads a folder's training_args.yaml. Returns the run's name; earlier runs, with the last step up
--- to which checkpoints are shared; and the id of the process that started its ranks
--- (system.parent_id).
---@param folder string
---@return string?, table<string, integer>?, string?
function training_args.of_run(folder)
  local path = folder .. "/training_args.yaml"
  if not system.exists(path) then return nil end
  local text, before = system.read(path), {}
  for step, run in text:gmatch "# After step (%d+) of run (%S+)\n" do
    before[run] = tonumber(step)
  end
  return text:match "\n# Run (%S+)\n", before, text:match "\n# Started by (%S+)\n"
end

return training_args
