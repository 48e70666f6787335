--- Starts the ranks of a run if they have not been started yet.
local errors = require "moonring.base.errors"
local expert_ranks = require "moonring.choices.expert_ranks"
local system = require "moonring.native.system"

local SP = "sequence_parallel_size: "

--- Starts the ranks of a command, unless this process is already one of several ranks. The option
--- -n overrides the number `ranks`. The calling process then only waits for the ranks and exits
--- with their exit code. Errors: INVALID_ARGUMENT if the number of ranks is not a multiple of sp or
--- of experts.
---@param sp integer at least 1
---@param ranks? integer default: sp
---@param restarts? integer how often the ranks are restarted after a failure; default 0
---@param experts? integer expert_parallel_size; default 1
return function(sp, ranks, restarts, experts)
  if sp < 1 then errors.fail(SP, "expected at least 1, got ", sp) end
  local launched = system.world_size()
  local given = launched > 0 and launched or system.requested_ranks()
  if given == 0 then given = ranks or sp end
  if given % sp ~= 0 then
    errors.fail(SP, sp, " does not divide the number of ranks, ", given)
  end
  expert_ranks.check_ranks(experts or 1, given)
  restarts = restarts or 0
  if launched > 0 then
    if restarts > 0 then system.offer_restarts(restarts) end
  elseif given > 1 or restarts > 0 then
    system.launch(given) -- a single rank too is a child process that can be restarted
  end
end
