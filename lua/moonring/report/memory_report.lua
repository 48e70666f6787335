--- The key memory_report: reports the peak memory of the rank that uses most, by category, next to
-- the kernel's total and, if there was a prediction, the predicted bytes. Rank 0 prints a table on
-- the terminal and writes memory_report.json in output_dir; every rank takes part.
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.memory_report
---@field parts string[] the categories, in table order; the last four are not tensors
local memory_report = {}

---@class moonring.MemoryFigures
---@field rank integer
---@field parts table<string, integer> bytes at the peak by category, minus those after start-up
---@field totals table<string, integer> as in MemoryWatch's report

--- The memory report of a run.
---@class moonring.MemoryReport
---@field watch moonring.MemoryWatch
---@field mesh moonring.Mesh
---@field dir string folder of memory_report.json
--- `predicted`: predicted bytes by category, and their `total`; empty without a prediction.
---@field predicted table<string, number>
---@field device table<string, number> a GPU's peaks so far, allocated and reserved
local Report = {}
Report.__index = Report

--- The categories, in table order. base/memory/memory_account.h describes them. The last four are
-- not tensors.
memory_report.parts = { "weights", "gradients", "optimizer", "checkpoint_inputs", "activations",
  "attention", "logits", "communication", "other", "data_and_libraries",
  "scripts", "held_by_allocator", "checkpoint_copy" }

--- Starts to measure memory if the key memory_report is set; otherwise returns nil.
---@param config moonring.Configuration
---@param mesh moonring.Mesh
---@return moonring.MemoryReport?
function memory_report.start(config, mesh)
  if not config.memory_report then return nil end
  return setmetatable({ watch = trainer.memory_watch(), mesh = mesh, dir = config.output_dir,
    predicted = {}, device = {} }, Report)
end

--- Stores the predicted bytes, which are shown next to the measured ones.
---@param found moonring.MemoryPrediction
function Report:set_prediction(found)
  local parts = found.parts
  self.predicted = { weights = parts.weights + parts.reference - found.mapped,
    gradients = parts.gradients, optimizer = parts.optimizer, checkpoint_inputs = parts.checkpoints,
    activations = parts.block, attention = parts.attention + parts.kernel, logits = parts.logits,
      communication = parts.communication, total = found.total - parts.other - found.mapped,
    process = parts.other }
end

--- The peak bytes of anonymous and shared memory since the last call, the maximum over all ranks.
--- Collective over all ranks.
---@return integer
function Report:take_peak() return self.mesh:max(self.watch:take_peak()) end

--- Updates the peaks of a GPU's memory.
---@param peaks { allocated: integer, reserved: integer } bytes
function Report:take_device(peaks)
  for name, bytes in pairs(peaks) do self.device[name] = math.max(self.device[name] or 0, bytes) end
end

--- The bytes of each category at the peak so far, on the rank with the greatest peak. The names are
--- those of the log, memory/PART_bytes. With a GPU they are bytes of GPU memory. Collective over
--- all ranks.
---@return table<string, integer>
function Report:take_parts()
  local parts, totals, device = self.watch:report()
  local most, named = -1, {}
  for _, text in ipairs(self.mesh:gather(system.json_encode { parts = device or parts,
    peak = device and totals.device_allocated or totals.kernel })) do
    local rank = system.json_decode(text)
    if rank.peak > most then most, named = rank.peak, rank.parts end
  end
  local of_log = {}
  for part, bytes in pairs(named) do of_log["memory/" .. part .. "_bytes"] = bytes end
  return of_log
end

-- Collects the measurements of all ranks: { rank, parts, totals, device } each.
local function of_ranks(self)
  local parts, totals, device = self.watch:report()
  for name, bytes in pairs(self.device) do
    totals["device_" .. name] = math.max(totals["device_" .. name] or 0, bytes)
  end
  local ranks = {}
  for i, text in ipairs(self.mesh:gather(system.json_encode { parts = parts, totals = totals,
    device = device })) do
    ranks[i] = system.json_decode(text)
    ranks[i].rank = i - 1
  end
  return ranks
end

local function mib(bytes) return bytes and ("%.1f"):format(bytes / 2 ^ 20) or "" end

-- Adds table rows for categories: name, MiB, the share of `whole`, and the predicted MiB. A
-- category whose measured and predicted bytes are both 0 has no row.
local function add_rows(lines, parts, predicted, whole)
  local function row(name, bytes, plan)
    lines[#lines + 1] = ("  %-20s %10s %7.1f %% %10s"):format((name:gsub("_", " ")), mib(bytes),
      100 * bytes / whole, plan and mib(plan) or ""):match "^(.-)%s*$"
  end
  for _, part in ipairs(memory_report.parts) do
    local bytes = parts[part]
    if bytes and (bytes ~= 0 or (predicted[part] or 0) ~= 0) then
      row(part, bytes, predicted[part])
    end
  end
  return row
end

-- Adds the categories of a GPU's memory, at the moment at which tensors used most. The peaks of the
-- allocator may be at other moments.
local function add_device(lines, figures, predicted)
  local totals, sum = figures.totals, 0
  for _, bytes in pairs(figures.device) do sum = sum + bytes end
  lines[#lines + 1] = "on its GPU, at the peak of that; MiB"
    .. (next(predicted) and "; last column: the plan" or "")
  local row = add_rows(lines, figures.device, predicted, sum)
  row("explained", sum, predicted.total)
  row("the allocator counts", totals.device_allocated or 0)
  lines[#lines] = lines[#lines] .. ("  of tensors; %s with what it keeps"):format(
    mib(totals.device_reserved or 0))
end

--- The lines of the table.
---@param figures moonring.MemoryFigures
---@param predicted table<string, number> predicted bytes by category, and their `total`
---@param ranks integer number of ranks, of which these figures are the greatest
---@param when string "at the end"
---@return string[]
function memory_report.lines(figures, predicted, ranks, when)
  local totals = figures.totals
  local of_host = figures.device and {} or predicted
  local lines = { ("memory %s, at the peak of rank %d%s; MiB"):format(when, figures.rank, ranks > 1
    and ", the greatest of " .. ranks or "") }
  if next(of_host) then lines[1] = lines[1] .. "; last column: the plan" end
  local row = add_rows(lines, figures.parts, of_host, totals.kernel)
  row("explained", totals.explained, of_host.total)
  row("the kernel counts", totals.kernel)
  lines[#lines] = lines[#lines] .. ("  anonymous and shared, above %s after start-up"):format(
    mib(totals.start_level))
  if figures.device then add_device(lines, figures, predicted) end
  return lines
end

--- Logs the table and writes memory_report.json, on rank 0. Collective over all ranks.
---@param journal moonring.Journal
---@param when string "at the end"
function Report:tell(journal, when)
  local ranks = of_ranks(self)
  if self.mesh:rank() ~= 0 then return end
  local worst = ranks[1]
  for _, each in ipairs(ranks) do
    if (each.totals.device_allocated or each.totals.kernel) > (worst.totals.device_allocated
      or worst.totals.kernel) then
      worst = each
    end
  end
  for _, text in ipairs(memory_report.lines(worst, self.predicted, #ranks, when)) do
    journal:say(text)
  end
  local plan = self.predicted
  journal:beside(system.write, self.dir .. "/memory_report.json",
    system.json_encode({ worst = worst, ranks = ranks, plan = next(plan) and plan or system.null },
    2) .. "\n")
end

return memory_report
