--- What a data set says of itself: on the terminal, in data_report.json, and while a stream is
-- read.
local system = require "moonring.native.system"

---@class moonring.data_report
local data_report = {}

--- What the data set holds, on the terminal and in data_report.json. From rank 0.
---@param journal moonring.Journal
function data_report.tell(journal)
  journal:say(journal.dataset:report())
  system.write(journal.config.output_dir .. "/data_report.json",
    journal.dataset:report_json() .. "\n")
end

--- What is said before the training. A stream's rows are counted as they are read: it says its
--- names alone.
---@param journal moonring.Journal
function data_report.begin(journal)
  if not journal.config.streaming then return data_report.tell(journal) end
  journal:say(tostring(journal.dataset))
end

--- A stream's report comes after the training, too late for one thing, that cutoff_len leaves next
--- to nothing to learn: that is told of once the rows read so far show it.
---@param journal moonring.Journal
function data_report.warn_of_cut(journal)
  if journal.warned or not journal.config.streaming then return end
  local warning = journal.dataset:cut_warning()
  if warning then journal:say(warning .. "; so far") end
  journal.warned = warning ~= nil
end

return data_report
