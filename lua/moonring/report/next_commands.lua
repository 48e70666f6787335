--- The commands that are useful after a run, as typed in the folder where it was started.
local own_command = require "moonring.report.own_command"
local shell = require "moonring.base.shell"

---@class moonring.next_commands
local next_commands = {}

-- Stages whose model cannot chat: pt continues texts, rm scores them.
local WITHOUT_CHAT = { pt = true, rm = true }

-- The program as it was called; nil in an embedded runtime.
local function program() return own_command.words()[1] end

local KEY = "resume_from_checkpoint"

-- The command line that resumes the run from its newest checkpoint: that of the run, in which
-- another checkpoint may be named.
local function resuming()
  local words = own_command.words(KEY)
  words[#words + 1] = KEY .. "=true"
  return shell.line(words)
end

--- The commands, the most useful first; empty in an embedded runtime.
---@param c moonring.Configuration
---@param state "finished" | "stopped" | "failed"
---@param checkpoint? string the newest checkpoint's folder
---@return string[]
function next_commands.list(c, state, checkpoint)
  local name = program()
  if not name then return {} end
  if state == "finished" then
    if not WITHOUT_CHAT[c.stage] then return { shell.line { name, "chat", c.output_dir } } end
  elseif checkpoint and not c.save_only_model then
    return { resuming() }
  end
  return { shell.line { name, "report", c.output_dir } }
end

return next_commands
