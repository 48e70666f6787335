--- The report.html that a run itself writes: at its end, and after evaluations as long as this
-- takes at most a hundredth of the run's time. On rank 0.
local errors = require "moonring.base.errors"
local page = require "moonring.report.page"
local run_files = require "moonring.report.run_files"
local run_samples = require "moonring.report.run_samples"
local system = require "moonring.native.system"

---@class moonring.run_page
local run_page = {}

---@class moonring.RunPage
---@field folder string
---@field files? moonring.RunFiles once there is a log
---@field began number by system.clock
---@field spent number seconds spent on pages so far
---@field last number seconds spent on the last page
---@field said? boolean whether a failed write was logged
local RunPage = {}
RunPage.__index = RunPage

local SHARE = 0.01
local FILE = "report.html"

--- Opens the page; nil if report_html is false. Unless this run resumes, files that the page of an
--- earlier run needed are removed.
---@param c moonring.Configuration
---@param goes_on boolean
---@return moonring.RunPage?
function run_page.open(c, goes_on)
  if not c.report_html then return nil end
  if not goes_on then
    run_samples.forget(c.output_dir)
    for _, name in ipairs { FILE, "layouts.jsonl" } do
      system.remove(c.output_dir .. "/" .. name)
    end
  end
  return setmetatable({ folder = c.output_dir, began = system.clock(), spent = 0, last = 0 },
    RunPage)
end

local function write(self)
  self.files = self.files or run_files.open(self.folder)
  self.files.is_own = true
  self.files:refresh()
  system.write(self.folder .. "/" .. FILE, page.text { self.files })
end

--- Writes the page, unless this would take too much of the run's time.
---@param at_end boolean writes it in any case
---@return string? why it could not be written; returned only once
function RunPage:write(at_end)
  local began = system.clock()
  if not at_end and self.spent + self.last > SHARE * (began - self.began) then return nil end
  local ok, why = pcall(write, self)
  self.last = system.clock() - began
  self.spent = self.spent + self.last
  if ok or self.said then return nil end
  self.said = true
  return FILE .. ": " .. errors.words(why)
end

return run_page
