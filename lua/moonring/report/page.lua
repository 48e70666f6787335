--- Makes report.html: one file that shows a run, or compares several, and needs no network. The
-- page's template (lua/report/page) is part of the program; this module inserts the data.
local system = require "moonring.native.system"

---@class moonring.page
local page = {}

local NAMES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }

-- JSON in which "<" is escaped, so that a text of a run cannot close the script element or open
-- another one.
local function escaped(value) return (system.json_encode(value):gsub("<", "\\u003c")) end

--- The data of a run for the page's script.
---@param run moonring.RunFiles
---@return string JSON without "<"
function page.run_json(run) return escaped(run:data()) end

--- The data for the page's script.
---@param runs string[] the results of run_json
---@param facts? table<string, any> more facts about all runs
---@return string JSON without "<"
function page.json(runs, facts)
  local all = { version = system.version(), made = os.date "!%Y-%m-%dT%H:%M:%SZ" }
  for name, value in pairs(facts or {}) do all[name] = value end
  return ('{"runs":[%s],%s'):format(table.concat(runs, ","), escaped(all):sub(2))
end

-- The template with each @NAME@ replaced.
local function filled(template, values)
  local parts, from = {}, 1
  for start, name, stop in template:gmatch "()@(%u+)@()" do
    if values[name] then
      parts[#parts + 1], parts[#parts + 2] = template:sub(from, start - 1), values[name]
      from = stop
    end
  end
  parts[#parts + 1] = template:sub(from)
  return table.concat(parts)
end

local function whole(names, filling)
  filling.TITLE = table.concat(names, ", "):gsub('[&<>"]', NAMES)
  return filled(system.read(system.report_page()), filling)
end

--- The whole page, with its data. It makes no requests.
---@param runs moonring.RunFiles[]
---@return string
function page.text(runs)
  local names, data = {}, {}
  for i, run in ipairs(runs) do names[i], data[i] = run.name, page.run_json(run) end
  return whole(names, { CONNECT = "'none'", LIVE = "", RUNS = page.json(data) })
end

--- The page without data, which polls its server for them.
---@param names string[] what it shows, for its title
---@return string
function page.live(names)
  return whole(names, { CONNECT = "'self'", LIVE = "live", RUNS = "null" })
end

return page
