--- report.html: one file that shows a run, or several beside one another, without a network. The
-- page itself (lua/report/page) is made as Moonring is built; here its data goes in.
local system = require "moonring.native.system"

---@class moonring.page
local page = {}

local NAMES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }

--- The page's data: what its script reads. No text of a run ends the element that it stands in,
--- or begins another one.
---@param runs moonring.RunFiles[]
---@return string JSON without "<"
function page.json(runs)
  local list = {}
  for i, run in ipairs(runs) do list[i] = run:data() end
  local text = system.json_encode { runs = list, version = system.version(),
    made = os.date "!%Y-%m-%dT%H:%M:%SZ" }
  return (text:gsub("<", "\\u003c"))
end

-- The page with each @NAME@ replaced.
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

--- The whole page. `live`: it asks the place that it came from for its data, again and again; else
--- its data is in it and it may ask nobody.
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
