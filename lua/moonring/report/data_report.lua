--- What data sets say of themselves: on the terminal, in data_report.json, and while a stream is
-- read. data_report.json is the account of what is learnt from, with what is evaluated under
-- "evaluated": a list, with the name of each.
local system = require "moonring.native.system"

---@class moonring.data_report
local data_report = {}

local function path_of(c) return c.output_dir .. "/data_report.json" end

-- A report's JSON object with a list of those that are evaluated as its last field.
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

-- What is held out of the very rows that are learnt from.
local function held_out(journal)
  local evals = journal.evals
  local is = evals and #evals == 1 and evals[1].of == "val_size" and not journal.config.streaming
  return is and evals[1].dataset or nil
end

local function rows_of(dataset) return system.json_decode(dataset:report_json()).rows end

-- What is evaluated, on the terminal.
local function say_evaluated(log, evals)
  for _, one in ipairs(evals or {}) do
    local key = one.of == "val_size" and "val_size" or "eval_dataset " .. one.of
    local text = one.dataset:report("evaluated"):gsub("\n$", "")
    log:say(key .. ": " .. text)
  end
end

-- What is learnt from, on the terminal.
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

--- What is said before the training. A stream's rows are counted as they are read: it says its
--- names alone. From rank 0.
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

--- What a stream's rows were, once the training is over. From rank 0.
---@param journal moonring.Journal
function data_report.finish(journal)
  if not journal.config.streaming then return end
  journal:say(journal.dataset:report())
  write(journal)
end

--- Of a run that trains nothing: what is evaluated, on the terminal and in data_report.json, where
--- the account of an earlier training stays. From rank 0.
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
