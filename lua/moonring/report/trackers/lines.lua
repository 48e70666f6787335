--- The values jsonl and command of the key report_to, and the programs of adapters.lua. All get the
-- same JSON lines: jsonl writes them to a file, the others send them to a program's stdin:
--
--   {"event": "begin", "step": 0, "time": 1764151999, "name": .., "configuration": {KEY: ..}}
--   {"event": "resume", "step": 40, ..}       instead of "begin", in a resumed run
--   {"event": "numbers", "step": 10, "time": .., "numbers": {"train/loss": 1.8, ..}}
--   {"event": "lengths", .., "tag": "data/document_lengths", "lengths": [..]}
--   {"event": "text", .., "tag": "sample/before", "text": ".."}
--   {"event": "end", "step": 300, "time": .., "state": "finished"}
--
-- The state of an end is finished, stopped (by a signal, which the field reason names) or failed
-- (with the error as reason). If the run is killed, stdin is closed without this line.
local config = require "moonring.config"
local lines_before = require "moonring.report.lines_before"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.tracker_lines
local lines = {}

local FILE = "records.jsonl"

-- Makes a tracker that calls `write` with each event as a JSON line.
local function tracker_of(write)
  local function event(name, step, more)
    more.event, more.step, more.time = name, step, os.time()
    write(system.json_encode(more))
  end
  return {
    begin = function(facts)
      event("begin", 0, { name = facts.name, configuration = facts.configuration })
    end,
    resume = function(step) event("resume", step, {}) end,
    numbers = function(step, by_name) event("numbers", step, { numbers = by_name }) end,
    text = function(step, tag, text) event("text", step, { tag = tag, text = text }) end,
    lengths = function(tag, list) event("lengths", 0, { tag = tag, lengths = list }) end,
    finish = function(step, state, reason)
      event("end", step, { state = state, reason = reason })
    end,
  }
end

local function is_no_end(event) return event.event ~= "end" end

--- Makes a tracker that writes lines to a file in a folder. A missing folder is created.
---@param _ moonring.Configuration
---@param folder string
---@param first_step integer
---@return table tracker
function lines.open_file(_, folder, first_step)
  system.make_folder(folder)
  local path = folder .. "/" .. FILE
  local goes_on = first_step > 0 and system.exists(path)
  if goes_on then system.write(path, lines_before.text(path, first_step, is_no_end)) end
  local file = trainer.line_file(path, goes_on)
  local tracker = tracker_of(function(line) file:append(line) end)
  tracker.path = path
  return tracker
end

--- The program that report_command names, with its arguments; a shell command if the key is a text.
--- Errors: INVALID_ARGUMENT if the key is absent.
---@param c moonring.Configuration
---@return string[]
function lines.command(c)
  local given, command = c.report_command, {}
  if type(given) == "string" and given:find "%S" then return { "/bin/sh", "-c", given } end
  for i, word in ipairs(type(given) == "table" and given or {}) do
    if type(word) ~= "string" and type(word) ~= "number" then break end
    command[i] = tostring(word)
  end
  if #command == 0 or #command ~= #given then
    config.fail("report_command: report_to: command requires a program and its arguments, a list ",
      "or a line for the shell, got ", given == nil and "nothing" or system.json_encode(given))
  end
  return command
end

--- Makes a tracker that sends lines to a program that was started.
---@param program moonring.LineProgram
---@param first_step integer
---@param patience { finished: number, stopped: number } seconds for its end, by the run's state
---@return table tracker
function lines.to_program(program, first_step, patience)
  local tracker = tracker_of(function(line) program:send(line) end)
  local finish = tracker.finish
  function tracker.finish(step, state, reason)
    finish(step, state, reason)
    program:finish(patience[state] or patience.stopped)
  end
  function tracker.notes() return program:notes() end
  function tracker.close() program:close() end
  if first_step > 0 then tracker.resume(first_step) end
  return tracker
end

--- Starts the program of report_command, and sends lines to it until the run ends.
---@param c moonring.Configuration
---@param _ string
---@param first_step integer
---@return table tracker
function lines.open_program(c, _, first_step)
  local program = trainer.line_program(lines.command(c))
  return lines.to_program(program, first_step, { finished = 30, stopped = 10 })
end

return lines
