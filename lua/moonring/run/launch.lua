--- Starts the ranks of a run, where nobody has yet.
local errors = require "moonring.base.errors"
local expert_ranks = require "moonring.choices.expert_ranks"
local system = require "moonring.native.system"

local SP = "sequence_parallel_size: "

--- Starts `ranks` ranks of this very command where this process is not one already and -n did not
--- say how many; then this process only waits for them and ends with their exit code. Else it does
--- nothing. Errors: INVALID_ARGUMENT where the ranks that there are, or are asked for, are no
--- multiple of sp or of experts.
---@param sp integer at least 1
---@param ranks? integer sp where absent
---@param restarts? integer how often they are started again after one has failed; 0 where absent
---@param experts? integer expert_parallel_size; 1 where absent
return function(sp, ranks, restarts, experts)
  if sp < 1 then errors.fail(SP, "wanted at least 1, got ", sp) end
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
    system.launch(given) -- a single rank too then has a process that waits for it
  end
end
