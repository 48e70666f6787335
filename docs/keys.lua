--- Writes docs/keys.md from the table that `moonring help train` prints:
--   moonring docs/keys.lua > docs/keys.md
-- { title, rows = { { name, type, default, meaning, ... } } }.
local bounds = require "moonring.config.bounds"
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
  if row.choices then text = ("%s. One of `%s`"):format(text, table.concat(row.choices, "`, `")) end
  if row.choices and row.own_file then text = text .. ", or the path of a .lua file" end
  local bounded = bounds.words(row)
  if bounded then text = ("%s. %s"):format(text, (bounded:gsub("^%l", string.upper))) end
  if row.only then text = ("%s. The default alone: %s"):format(text, cell(row.only)) end
  if row.ignored then text = ("%s. No effect: %s"):format(text, cell(row.ignored)) end
  return text
end

-- How many of some rows have each effect.
local function counted(list)
  local numbers = { acts = 0, refused = 0, none = 0, all = #list }
  for _, row in ipairs(list) do
    numbers[sections.effect(row)] = numbers[sections.effect(row)] + 1
  end
  return numbers
end

-- The rows of LLaMA-Factory's own keys, by tests/golden/llamafactory_keys; a name that is another
-- one's alias counts as that one does.
local function llamafactory(by_name)
  local system = require "moonring.native.system"
  local path, list = "tests/golden/llamafactory_keys/keys.json", {}
  for name in pairs(system.json_decode(system.read(path), path)) do
    list[#list + 1] = by_name[sections.aliases[name] or name]
  end
  return list
end

local all, by_name = {}, {}
for row in sections.rows() do all[#all + 1], by_name[row[1]] = row, row end

print [[
# Every key of a configuration

Made by `moonring docs/keys.lua > docs/keys.md` from the table by which configurations are read;
a test makes it again and compares. `moonring help train` prints the same, and
`moonring help train KEY` all there is to say of one key.

A key is a line of the YAML, or `key=value` on the command line, which wins. An empty default means
that the key is absent. What becomes of another value than the default is in the column *effect*:

| effect | another value than the default | keys | of LLaMA-Factory 0.9.5's |
|---|---|---|---|]]
local ours, theirs = counted(all), counted(llamafactory(by_name))
for _, each in ipairs {
  { "acts", "does what the row says" },
  { "refused", "ends the command before anything is trained (exit code 2), by the key's name" },
  { "none", "changes nothing, and a line of the log says so once: `KEY: no effect: WHY`" },
  { "all", "" },
} do
  print(("| %s | %s | %d | %d |"):format(each[1], each[2], ours[each[1]], theirs[each[1]]))
end
for _, section in ipairs(sections) do
  print("\n## " .. section.title
    .. "\n\n| key | type | default | effect | meaning |\n|---|---|---|---|---|")
  for _, row in ipairs(section.rows) do
    print(("| `%s` | %s | %s | %s | %s |"):format(row[1], row[2], shown(row[3]),
      sections.effect(row), meaning(row)))
  end
end

local aliases = {}
for alias, name in pairs(sections.aliases) do aliases[#aliases + 1] = { alias, name } end
table.sort(aliases, function(a, b) return a[1] < b[1] end)
print "\n## Other names\n\n| also | is |\n|---|---|"
for _, pair in ipairs(aliases) do print(("| `%s` | `%s` |"):format(pair[1], pair[2])) end
