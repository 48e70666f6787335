--- The tables of `moonring check`.
local layouts = require "moonring.commands.check.layouts"

---@class moonring.check_text
local text = {}

-- Rows of cells as lines, with columns of equal width.
local function table_of(rows)
  local widths, lines = {}, {}
  for _, row in ipairs(rows) do
    for c, cell in ipairs(row) do widths[c] = math.max(widths[c] or 0, #cell) end
  end
  for r, row in ipairs(rows) do
    local cells = {}
    for c, cell in ipairs(row) do cells[c] = cell .. (" "):rep(widths[c] - #cell) end
    lines[r] = (table.concat(cells, "  "):gsub("%s+$", ""))
  end
  return lines
end

local function number(x) return x and ("%.10g"):format(x) or "-" end

local function metric_names(results)
  local names = {}
  local base = results[1].result
  for name in pairs(base and base.metrics or {}) do
    names[#names + 1] = name
  end
  table.sort(names)
  return names
end

local function layout_rows(results, found)
  local names = metric_names(results)
  local rows = { { "layout", "cut", "loss", "gradient norm", "largest difference" } }
  for _, name in ipairs(names) do table.insert(rows[1], name) end
  table.insert(rows[1], "verdict")
  for i, one in ipairs(results) do
    local row, result = found.rows[i], one.result
    local cells = { layouts.all[i].title, result and ("%d/%d"):format(result.documents.cut,
      result.documents.all) or "-", number(row.loss), number(row.norm),
      row.error and (row.parameter and ("%.1e %s"):format(row.error, row.parameter) or "0") or "-" }
    local metrics = result and result.metrics or {}
    for _, name in ipairs(names) do cells[#cells + 1] = number(metrics[name]) end
    cells[#cells + 1] = one.failure and "FAILS" or row.verdict
    rows[#rows + 1] = cells
  end
  return rows
end

local function difference_rows(base)
  local rows = { { "direction", "gradient", "finite differences", "relative error", "verdict" } }
  for k, one in ipairs(base.result.differences) do
    rows[#rows + 1] = { tostring(k), ("%.12g"):format(one.analytic), ("%.12g"):format(one.numeric),
      ("%.1e"):format(one.error), one.verdict == "differs" and "DIFFERS" or one.verdict }
  end
  return rows
end

local function append(lines, more)
  for _, line in ipairs(more) do lines[#lines + 1] = line end
end

-- What was found to be right, and what was not compared.
local function right_lines(results, found)
  local base, lines, rough = results[1].result, {}, 0
  local cut = results[#results].result.documents
  for _, row in ipairs(found.rows) do rough = math.max(rough, row.rounded or 0) end
  lines[1] = ("right: equal in every layout, to %.1e"):format(rough)
  if rough > 1e-9 then
    lines[#lines + 1] = "not in fp64: a difference of this size comes of fp32 (tensors that the "
      .. "objective makes are fp32 unless it says \"fp64\")"
  end
  if cut.cut < cut.all then
    lines[#lines + 1] = ("weak: sp 2 cut only %d of %d documents"):format(cut.cut, cut.all)
  end
  if base.surrogate and #base.differences == 0 then
    lines[#lines + 1] = "surrogate: its constants are made in C++, so the gradient is not compared "
      .. "with finite differences"
  end
  for k, one in ipairs(base.differences) do
    if one.verdict == "not smooth" then
      lines[#lines + 1] = ("direction %d: the loss has a kink at this place, or is rounded: not "
        .. "compared"):format(k)
    end
  end
  return lines
end

-- One line for each layout with faults.
local function fault_lines(found)
  local lines = {}
  for i, row in ipairs(found.rows) do
    local words = {}
    for f, fault in ipairs(row.faults) do words[f] = fault.words end
    if #words > 0 then
      lines[#lines + 1] = layouts.all[i].title .. ": " .. table.concat(words, "; ")
    end
  end
  return lines
end

--- All lines of the answer.
---@param results moonring.LayoutResult[]
---@param found { rows: moonring.CheckRow[], faults: moonring.CheckFault[] }
---@param suspects { place: string, words: string }[]
---@return string[]
function text.lines(results, found, suspects)
  local lines = { "" }
  append(lines, table_of(layout_rows(results, found)))
  if results[1].result and #results[1].result.differences > 0 then
    lines[#lines + 1] = ""
    append(lines, table_of(difference_rows(results[1])))
  end
  lines[#lines + 1] = ""
  append(lines, fault_lines(found))
  for _, one in ipairs(suspects) do
    lines[#lines + 1] = ("suspect %s: %s"):format(one.place, one.words)
  end
  if #found.faults == 0 then append(lines, right_lines(results, found)) end
  return lines
end

return text
