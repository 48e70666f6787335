--- Makes report.html: one file that shows a run, or compares several, and needs no network. The
-- page's template (lua/report/page) is part of the program; this module inserts the data.
local system = require "moonring.native.system"

---@class moonring.page
local page = {}

local NAMES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }

--- The data for the page's script, as JSON. "<" is escaped, so that a text of a run cannot close
--- the script element or open another one.
---@param runs moonring.RunFiles[]
---@return string JSON without "<"
function page.json(runs)
  local list = {}
  for i, run in ipairs(runs) do list[i] = run:data() end
  local text = system.json_encode { runs = list, version = system.version(),
    made = os.date "!%Y-%m-%dT%H:%M:%SZ" }
  return (text:gsub("<", "\\u003c"))
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

--- The whole page. If `live` is true, the page polls its server for data. Otherwise it contains the
--- data and makes no requests.
---@param runs moonring.RunFiles[]
---@param live? boolean
---@return string
function page.text(runs, live)
  local names = {}
  for i, run in ipairs(runs) do names[i] = run.name end
  local title = table.concat(names, ", "):gsub('[&<>"]', NAMES)
  return filled(system.read(system.report_page()), { TITLE = title,
    CONNECT = live and "'self'" or "'none'", LIVE = live and "live" or "",
    RUNS = live and "null" or page.json(runs) })
end

return page
