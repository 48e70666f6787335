--- memory_report: what each byte of the worst rank is for at its peak, beside what the kernel counts and, where a plan was made, what it foretold.
-- A table on the terminal and memory_report.json in output_dir, from rank 0; every rank takes part.
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

local memory_report = {}
local Report = {}
Report.__index = Report

--- The parts, in the order of the table; comm/memory_account.h says what each one is. The last three are no tensors.
memory_report.parts = { "weights", "gradients", "optimizer", "checkpoint_inputs", "activations", "attention", "logits", "communication", "other", "data_and_libraries",
  "scripts", "held_by_allocator" }

--- Starts to watch, where the configuration asks for it; else nil.
function memory_report.start(config, mesh)
  if not config.memory_report then return nil end
  return setmetatable({ watch = trainer.memory_watch(), mesh = mesh, dir = config.output_dir, predicted = {} }, Report)
end

--- Takes what memory.predict foretold, to be told beside what was found. A process that has not begun is apart
-- here, and weights that are pages of a file, which are not anonymous, are left out.
function Report:foretell(found)
  local parts = found.parts
  self.predicted = { weights = parts.weights + parts.reference - found.mapped, gradients = parts.gradients, optimizer = parts.optimizer, checkpoint_inputs = parts.checkpoints,
    activations = parts.block, attention = parts.attention, logits = parts.logits, communication = parts.communication, total = found.total - parts.other - found.mapped,
    process = parts.other }
end

--- The most anonymous and shared memory of a rank since the last call, in bytes. Collective.
function Report:take_peak() return self.mesh:max(self.watch:take_peak()) end

-- The ranks' own figures: { rank, parts, totals } each.
local function of_ranks(self)
  local parts, totals = self.watch:report()
  local ranks = {}
  for i, text in ipairs(self.mesh:gather(system.json_encode { parts = parts, totals = totals })) do
    ranks[i] = system.json_decode(text)
    ranks[i].rank = i - 1
  end
  return ranks
end

local function mib(bytes) return bytes and ("%.1f"):format(bytes / 2 ^ 20) or "" end

--- The table's lines: the figures of one rank, { rank, parts, totals }, beside `predicted`, bytes by part and their total. A part that has nothing and is foretold
-- nothing has no line.
function memory_report.lines(figures, predicted, ranks, when)
  local totals = figures.totals
  local lines = { ("memory %s, at the peak of rank %d%s; MiB"):format(when, figures.rank, ranks > 1 and ", the greatest of " .. ranks or "") }
  local function line(name, bytes, plan)
    lines[#lines + 1] = ("  %-20s %10s %7.1f %% %10s"):format((name:gsub("_", " ")), mib(bytes), 100 * bytes / totals.kernel, plan and mib(plan) or ""):match "^(.-)%s*$"
  end
  local foretold = false
  for _, part in ipairs(memory_report.parts) do
    local plan = predicted[part]
    foretold = foretold or plan ~= nil
    if figures.parts[part] ~= 0 or (plan or 0) ~= 0 then line(part, figures.parts[part], plan) end
  end
  if foretold then lines[1] = lines[1] .. "; last column: the plan" end
  line("explained", totals.explained, predicted.total)
  line("the kernel counts", totals.kernel)
  lines[#lines] = lines[#lines] .. ("  anonymous and shared, above %s after start-up"):format(mib(totals.start_level))
  if totals.device_reserved then
    lines[#lines + 1] = ("  on the GPU %s, %s with what its allocator keeps"):format(mib(totals.device_allocated), mib(totals.device_reserved))
  end
  return lines
end

--- Tells `journal` of the rank whose peak is the greatest, and writes memory_report.json. Collective.
function Report:tell(journal, when)
  local ranks = of_ranks(self)
  if self.mesh:rank() ~= 0 then return end
  local worst = ranks[1]
  for _, each in ipairs(ranks) do
    if each.totals.kernel > worst.totals.kernel then worst = each end
  end
  for _, text in ipairs(memory_report.lines(worst, self.predicted, #ranks, when)) do journal:say(text) end
  local plan = self.predicted
  system.write(self.dir .. "/memory_report.json", system.json_encode({ worst = worst, ranks = ranks, plan = next(plan) and plan or system.null }, 2) .. "\n")
end

return memory_report
