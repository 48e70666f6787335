--- `moonring check`: is the loss of an objective, and are its gradients, the same for any sp, dp,
-- micro-batches and packing, and is the gradient that of the loss? One step is made in every layout
-- (layouts.lua), in fp64, and compared with that of sp 1.
local errors = require "moonring.base.errors"
local given = require "moonring.config.given"
local layouts = require "moonring.commands.check.layouts"
local plans = require "moonring.commands.check.plan"
local sandbox = require "moonring.sandbox"
local suspects = require "moonring.commands.check.suspects"
local system = require "moonring.native.system"
local terminal = require "moonring.base.terminal"
local text = require "moonring.commands.check.text"
local verdicts = require "moonring.commands.check.verdicts"

---@class moonring.check
local check = {}

local USAGE = "usage: moonring check OBJECTIVE.lua | CONFIG.yaml [key=value...]"

-- The path that a command's first word names: a file, or a command that is a script.
local function target_of(word)
  if not word or not given.is_path(word) then errors.fail(USAGE) end
  local builtin = word:match "^builtin:(.+)$"
  if builtin then return system.builtin(builtin) end
  if system.exists(word) then return word end
  for _, name in ipairs(system.commands()) do
    if name == word then return system.script_path(name) end
  end
  errors.fail("no file '", word, "'; ", USAGE)
end

-- Refuses what would start ranks of ranks, or processes out of the sandbox.
local function refuse()
  if system.world_size() > 0 or system.requested_ranks() > 0 then
    errors.fail "check starts the ranks of each layout itself: leave -n and torchrun out"
  end
  if sandbox.is_confined() then
    errors.raise("PERMISSION_DENIED", "--sandbox: check starts processes, and none may start here")
  end
end

local function say(...) terminal.print(table.concat { ... }) end

-- Checks, and prints the answer. Returns the number of faults, and the first suspect.
local function run(target, words, folder)
  local plan = plans.make(target, words, folder)
  system.write(folder .. "/plan.json", system.json_encode(plan))
  say("check of ", target, ", one step in fp64")
  for _, line in ipairs(plan.about) do say(line) end
  io.flush()
  system.started() -- from here on a failure is the objective's
  local results = layouts.run(folder)
  local found = verdicts.of(results)
  local suspected = suspects.of(plan, folder, results, found)
  for _, line in ipairs(text.lines(results, found, suspected)) do say(line) end
  io.flush()
  return #found.faults, suspected[1]
end

--- Runs the command. Errors: FAILED_PRECONDITION, with exit code 1, if anything differs.
---@param words string[] `arg`
function check.main(words)
  refuse()
  local target = target_of(words[1])
  local folder = os.tmpname()
  os.remove(folder)
  system.make_folder(folder)
  local ok, faults, suspected = pcall(run, target, { unpack(words, 2) }, folder)
  system.remove(folder)
  if not ok then error(faults, 0) end
  if faults > 0 then
    errors.raise("FAILED_PRECONDITION", target, ": ", faults, faults == 1 and " fault" or " faults",
      "; suspect ", suspected.place)
  end
end

return check
