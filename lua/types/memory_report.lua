---@meta moonring.memory_report

--- What `memory_report: true` tells: what each byte of the worst rank is for at its peak, beside what the kernel counts and what a plan foretold.
---@class moonring.memory_report
---@field parts string[] the parts, in the order of the table; the last three are no tensors
local report = {}

--- Starts to watch where the configuration asks for it, else returns nil.
---@param config moonring.Configuration
---@param mesh moonring.Mesh
---@return moonring.MemoryReport?
function report.start(config, mesh) end

---@class moonring.MemoryFigures
---@field rank integer
---@field parts table<string, integer> bytes by part, at the peak and above the level after start-up
---@field totals table<string, integer> as MemoryWatch's report

--- The table's lines.
---@param figures moonring.MemoryFigures
---@param predicted table<string, number> bytes that were foretold by part, and their `total`
---@param ranks integer of how many this is the greatest
---@param when string "at the end"
---@return string[]
function report.lines(figures, predicted, ranks, when) end

---@class moonring.MemoryReport
---@field watch moonring.MemoryWatch
---@field mesh moonring.Mesh
---@field dir string where memory_report.json goes
---@field predicted table<string, number> bytes that were foretold by part, and their `total`; empty where nothing was
---@field device table<string, number> a GPU's peaks so far, allocated and reserved
local MemoryReport = {}

--- The most anonymous and shared memory of any rank since the last call, in bytes. Collective.
---@return integer
function MemoryReport:take_peak() end

--- Takes a GPU's peaks of the time since the last ones.
---@param peaks { allocated: integer, reserved: integer } bytes
function MemoryReport:take_device(peaks) end

--- Takes what was foretold, to be told beside what was found.
---@param found moonring.MemoryPrediction
function MemoryReport:foretell(found) end

--- Shows the table on the terminal and writes memory_report.json, from rank 0. Collective.
---@param journal moonring.Journal
---@param when string "at the end"
function MemoryReport:tell(journal, when) end

return report
