--- training_args.yaml: what a run was asked for, whole, so that it can be had again: `moonring train training_args.yaml`.
local keys = require "moonring.config.keys"
local system = require "moonring.native.system"

local training_args = {}

-- Numbers and texts as JSON writes them are YAML's too.
local function written(value)
  if type(value) == "number" and value == math.floor(value) and math.abs(value) < 2 ^ 53 then return ("%d"):format(value) end
  return system.json_encode(value)
end

local SETTLED = { template = true, resize_vocab = true } -- by the model and the data, where nobody says

--- The file's text: every key that acts, under the headings of help, with the value that counts, given or not. What is absent, has no effect, or was settled by the model and the data (they
-- settle it again) is left out. `run`: which run it is of; `before`: up to which step earlier runs' checkpoints are its own too, by their names. of_run finds both again.
function training_args.text(c, ranks, run, before)
  local lines = { ("# Again: moonring -n %d train training_args.yaml"):format(ranks), "# Run " .. run }
  for earlier, step in pairs(before or {}) do lines[#lines + 1] = ("# After step %d of run %s"):format(step, earlier) end
  for _, section in ipairs(keys) do
    local heading = "\n# " .. section.title
    for _, row in ipairs(section.rows) do
      local name, value = row[1], c[row[1]]
      if SETTLED[name] and (c.given[name] == nil or c.given[name] == system.null) then value = nil end
      if value == nil and row.nullable then value = system.null end
      if value ~= nil and not (row.only or row.ignored or row.warned) then
        if heading then lines[#lines + 1], heading = heading, nil end
        lines[#lines + 1] = name .. ": " .. (value == system.null and "null" or written(value))
      end
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

--- Which run the file of a folder is of, and up to which step it shares earlier runs' checkpoints: name -> step; nil where there is none.
function training_args.of_run(folder)
  local path = folder .. "/training_args.yaml"
  if not system.exists(path) then return nil end
  local text, before = system.read(path), {}
  for step, run in text:gmatch "# After step (%d+) of run (%S+)\n" do before[run] = tonumber(step) end
  return text:match "\n# Run (%S+)\n", before
end

return training_args
