--- The commands that are useful after a run, as typed in the folder where it was started.
local shell = require "moonring.base.shell"
local system = require "moonring.native.system"

---@class moonring.next_commands
local next_commands = {}

-- Stages whose model is no chat model: pt continues texts, rm scores them.
local WITHOUT_CHAT = { pt = true, rm = true }

-- The program as it was called; nil in an embedded runtime.
local function program() return system.command()[1] end

-- The command line that resumes the run.
local function resuming()
  local words, has_key = {}, false
  for i, word in ipairs(system.command()) do
    words[i] = word
    has_key = has_key or word:find "^%-*resume_from_checkpoint=" ~= nil
  end
  if not has_key then words[#words + 1] = "resume_from_checkpoint=true" end
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
