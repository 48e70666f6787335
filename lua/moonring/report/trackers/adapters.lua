--- The values wandb, mlflow and swanlab of the key report_to: a program in Python (in
-- lua/report/trackers) gets the events of lines.lua on stdin, and uses the tracker's own package.
local errors = require "moonring.base.errors"
local key_values = require "moonring.config.key_values"
local lines = require "moonring.report.trackers.lines"
local system = require "moonring.native.system"
local tracked_facts = require "moonring.report.tracked_facts"
local trainer = require "moonring.native.trainer"

---@class moonring.tracker_adapters
local adapters = {}

-- Seconds for a program's end: it may still send what has waited for the network. A stopped run is
-- often killed half a minute after the signal.
local PATIENCE, GRACE = { finished = 300, stopped = 20 }, 20

-- The keys that adapters read, secret ones too: they are on the program's stdin only. Defaults are
-- omitted, because they would override a tracker's environment variables.
local SETTINGS = { "run_name", "swanlab_project", "swanlab_workspace", "swanlab_run_name",
  "swanlab_mode", "swanlab_api_key", "swanlab_logdir", "swanlab_lark_webhook_url",
  "swanlab_lark_secret" }

local function settings_of(c)
  local given, rows = {}, key_values.rows()
  for _, name in ipairs(SETTINGS) do
    if c[name] ~= rows[name][3] then given[name] = c[name] end
  end
  return next(given) and given or nil -- an empty table would be a list in JSON
end

-- The interpreter: that of the wheel's command, or the one whose torch the program uses.
local function python() return system.environment "MOONRING_PYTHON" or "python3" end

local function start(name)
  local lua = system.module_path("init"):match "^(.*)/moonring/init%.lua$"
  local command = { python(), lua .. "/report/trackers/adapter.py", name }
  local ok, program = pcall(trainer.line_program, command, GRACE)
  if ok then return program end
  local remedy = errors.is(program, "NOT_FOUND") and (" (requires Python with the package %s; "
    .. "MOONRING_PYTHON chooses the interpreter)"):format(name) or ""
  error(errors.with(program, remedy), 0)
end

--- The function that opens a tracker with a program.
---@param name "wandb" | "mlflow" | "swanlab"
---@return fun(c: moonring.Configuration, folder: string, first_step: integer): table
function adapters.opens(name)
  return function(c, folder, first_step)
    local program = start(name)
    program:send(system.json_encode { event = "open", name = tracked_facts.name(c),
      folder = folder, settings = settings_of(c) })
    return lines.to_program(program, first_step, PATIENCE)
  end
end

return adapters
