--- training_args.yaml: what a run was asked for, whole, so that it can be had again: `moonring train training_args.yaml`.
local keys = require "moonring.keys"
local system = require "moonring.native.system"

local training_args = {}

-- Numbers and texts as JSON writes them are YAML's too.
local function written(value)
  if type(value) == "number" and value == math.floor(value) and math.abs(value) < 2 ^ 53 then return ("%d"):format(value) end
  return system.json_encode(value)
end

--- The file's text: every key that acts, under the headings of help, with the value that counts, given or not. What is absent or has no effect is left out.
-- `run`: which run it is of, that of_run finds again.
function training_args.text(c, ranks, run)
  local lines = { ("# Again: moonring -n %d train training_args.yaml"):format(ranks), "# Run " .. run }
  for _, section in ipairs(keys) do
    local heading = "\n# " .. section.title
    for _, row in ipairs(section.rows) do
      local name, value = row[1], c[row[1]]
      if row[2] == "string" and type(value) == "table" then value = nil end -- a template found in the model
      if value == nil and row.nullable then value = system.null end
      if value ~= nil and not (row.only or row.ignored or row.warned) then
        if heading then lines[#lines + 1], heading = heading, nil end
        lines[#lines + 1] = name .. ": " .. (value == system.null and "null" or written(value))
      end
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

--- Which run the file of a folder is of; nil where there is none.
function training_args.of_run(folder)
  local path = folder .. "/training_args.yaml"
  return system.exists(path) and system.read(path):match "\n# Run (%S+)\n" or nil
end

return training_args
