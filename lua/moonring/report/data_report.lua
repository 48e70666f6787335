--- Reports on data sets: on the terminal, in data_report.json, and while a stream is read.
-- data_report.json describes the training data; its field "evaluated" is a list that describes each
-- evaluation data set by name.
local system = require "moonring.native.system"

---@class moonring.data_report
local data_report = {}

local function path_of(c) return c.output_dir .. "/data_report.json" end

-- Adds the reports of the evaluation data sets, as a list, to a JSON object; it is the last field.
local function with_evaluated(object, evals)
  local list = {}
  for i, one in ipairs(evals or {}) do
    local fields = one.dataset:report_json():sub(2)
    list[i] = ('{"name":%s,%s'):format(system.json_encode(one.of), fields)
  end
  if #list == 0 then return object end
  local fields = object:gsub("%s*}%s*$", "")
  return fields .. (fields == "{" and "" or ",") .. '"evaluated":[' .. table.concat(list, ",")
    .. "]}"
end

-- The data set that val_size split off the training data, if it is the only evaluation data.
local function held_out(journal)
  local evals = journal.evals
  local is = evals and #evals == 1 and evals[1].of == "val_size" and not journal.config.streaming
  return is and evals[1].dataset or nil
end

local function rows_of(dataset) return system.json_decode(dataset:report_json()).rows end

-- Logs the reports of the evaluation data sets.
local function say_evaluated(log, evals)
  for _, one in ipairs(evals or {}) do
    local key = one.of == "val_size" and "val_size" or "eval_dataset " .. one.of
    local text = one.dataset:report("evaluated"):gsub("\n$", "")
    log:say(key .. ": " .. text)
  end
end

-- Logs the report of the training data.
local function say_learnt(journal)
  local held = held_out(journal)
  if not held then return journal:say(journal.dataset:report()) end
  local out = rows_of(held)
  journal:say(journal.dataset:report("learnt", held) .. ("val_size: %d of the %d rows are held out "
    .. "to evaluate on"):format(out, rows_of(journal.dataset) + out))
end

local function write(journal)
  local text = with_evaluated(journal.dataset:report_json(), journal.evals)
  system.write(path_of(journal.config), text .. "\n")
end

--- Reports on the data before the training. Rows of a stream are counted only as they are read, so
--- for a stream only the name is logged. On rank 0.
---@param journal moonring.Journal
function data_report.begin(journal)
  if journal.config.streaming then
    journal:say(tostring(journal.dataset))
  else
    say_learnt(journal)
    write(journal)
  end
  if not held_out(journal) then say_evaluated(journal, journal.evals) end
end

--- Reports on the rows of a stream after the training. On rank 0.
---@param journal moonring.Journal
function data_report.finish(journal)
  if not journal.config.streaming then return end
  journal:say(journal.dataset:report())
  write(journal)
end

--- Reports on the evaluation data of a run that does not train: on the terminal, and in
--- data_report.json, in which the report of an earlier training stays. On rank 0.
---@param log { config: moonring.Configuration, say: function }
---@param evals moonring.EvaluatedDataset[]
function data_report.tell_evaluated(log, evals)
  say_evaluated(log, evals)
  local path, before = path_of(log.config), "{}"
  if system.exists(path) then
    local text = system.read(path):gsub("%s+$", "")
    if pcall(system.json_decode, text) and text:find "^{" then
      before = text:gsub(',?"evaluated":%[.*%]}$', "}")
    end
  end
  system.write(path, with_evaluated(before, evals) .. "\n")
end

--- Warns as soon as the rows that were read from a stream show that cutoff_len leaves almost no
--- targets. The stream's report comes only after the training, which would be too late.
---@param journal moonring.Journal
function data_report.warn_of_cut(journal)
  if journal.warned or not journal.config.streaming then return end
  local warning = journal.dataset:cut_warning()
  if warning then journal:say(warning .. "; so far") end
  journal.warned = warning ~= nil
end

return data_report
