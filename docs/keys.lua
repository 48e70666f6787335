--- Writes docs/keys.md from the table that `moonring help train` prints:
--   moonring docs/keys.lua > docs/keys.md
-- { title, rows = { { name, type, default, meaning, ... } } }.
local sections = require "moonring.config.keys"
local null = require("moonring").null

local function shown(value)
  if value == null then return "" end
  return "`" .. tostring(value) .. "`"
end

--- What a cell of a table may not hold as it is.
local function cell(text) return (text:gsub("|", "\\|"):gsub("([<>*])", "\\%1")) end

local function meaning(row)
  local text = cell(row[4])
  local idle = row.ignored or row.warned
  if row.choices then text = ("%s. One of `%s`"):format(text, table.concat(row.choices, "`, `")) end
  if row.choices and row.own_file then text = text .. ", or the path of a .lua file" end
  if row.most then
    text = ("%s. From %g to %g"):format(text, row.least, row.most)
  elseif row.least then
    text = ("%s. At least %g"):format(text, row.least)
  end
  if row.only then text = ("%s. The default alone: %s"):format(text, cell(row.only)) end
  if idle then text = text .. ". No effect" .. (idle ~= "" and ": " .. cell(idle) or "") end
  return text
end

print [[
# Every key of a configuration

Made by `moonring docs/keys.lua > docs/keys.md` from the table by which configurations are read;
a test makes it again and compares. `moonring help train` prints the same, and
`moonring help train KEY` all there is to say of one key.

A key is a line of the YAML, or `key=value` on the command line, which wins. An empty default means
that the key is absent. "The default alone" means that another value is refused, and why.]]
for _, section in ipairs(sections) do
  print("\n## " .. section.title .. "\n\n| key | type | default | meaning |\n|---|---|---|---|")
  for _, row in ipairs(section.rows) do
    print(("| `%s` | %s | %s | %s |"):format(row[1], row[2], shown(row[3]), meaning(row)))
  end
end

local aliases = {}
for alias, name in pairs(sections.aliases) do aliases[#aliases + 1] = { alias, name } end
table.sort(aliases, function(a, b) return a[1] < b[1] end)
print "\n## Other names\n\n| also | is |\n|---|---|"
for _, pair in ipairs(aliases) do print(("| `%s` | `%s` |"):format(pair[1], pair[2])) end
