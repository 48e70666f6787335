--- Writes run_state.json in output_dir: the state of a run, why it ended, the facts about it, and
-- its totals. Fields:
--
--   state            "running", "finished", "stopped" (a signal, or the embedding program) or
--                    "failed" (an error)
--   reason           a sentence
--   checkpoint       the newest checkpoint's folder in output_dir
--   resumable        whether the run has not finished and can resume from that checkpoint
--   next             command lines that are useful now
--   began, updated, ended    times, UTC
--   run, command, machine, model, data, ...    from run_facts.lua
--   step, tokens, tokens_per_second, ...       from totals.lua
--
-- If the process is killed, the state stays "running", and no process holds run.lock.
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.run_state
local run_state = {}

---@class moonring.RunState
---@field dir string
---@field record moonring.RunRecord
---@field contents table<string, any>
---@field written number when it was last written, by system.clock
local RunState = {}
RunState.__index = RunState

local FILE = "run_state.json"
local RUNNING = "in progress when this was written; if no process holds run.lock, the run was "
  .. "killed"
local PAUSE = 1 -- least seconds between two writes while the run is in progress

-- The open run of each folder. A script may open one run after another in a folder, also after one
-- that failed.
local owners = setmetatable({}, { __mode = "v" })

local function now() return os.date "!%Y-%m-%dT%H:%M:%SZ" end

local function write(self)
  if owners[self.dir] ~= self then return end
  self.written, self.contents.updated = system.clock(), now()
  self.record:write(system.json_encode(self.contents))
end

--- Starts the file of a run. Errors: those of writing a file.
---@param dir string
---@param facts moonring.RunFacts
---@param totals moonring.Totals before the first step
---@return moonring.RunState
function run_state.open(dir, facts, totals)
  local contents = { state = "running", reason = RUNNING, began = now(), resumable = false }
  for _, fields in ipairs { facts, totals } do
    for name, value in pairs(fields) do contents[name] = value end
  end
  if owners[dir] then owners[dir].record:close() end
  local self = setmetatable({ dir = dir, record = trainer.run_record(dir .. "/" .. FILE),
    written = 0, contents = contents }, RunState)
  owners[dir] = self
  write(self)
  return self
end

local function take(self, totals)
  for name, value in pairs(totals) do self.contents[name] = value end
end

--- Records the totals so far, at most once a second.
---@param totals moonring.Totals
function RunState:reach(totals)
  take(self, totals)
  if system.clock() - self.written >= PAUSE then write(self) end
end

--- Records a complete checkpoint.
---@param name string its folder in output_dir
---@param resumable boolean whether a run can resume from it
function RunState:saved(name, resumable)
  self.contents.checkpoint, self.contents.resumable = name, resumable
  write(self)
end

--- Records the end of the run.
---@param state "finished" | "stopped" | "failed"
---@param reason string
---@param totals moonring.Totals
---@param next_commands string[]
function RunState:finish(state, reason, totals, next_commands)
  take(self, totals)
  local contents = self.contents
  contents.state, contents.reason, contents.ended = state, reason, now()
  contents.resumable = contents.resumable and state ~= "finished"
  contents.next = #next_commands > 0 and next_commands or nil
  write(self)
end

return run_state
