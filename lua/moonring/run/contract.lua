--- Checks the contract of `level`: an objective's loss is a sum over this rank's tokens (token), or
-- equal on every rank of the sp group (sequence). Otherwise loss or gradient are wrong where ranks
-- share a document, and right where they do not, so short documents would hide it. The check reads
-- autograd's graph (comm/loss_kinds.h), so that its result does not depend on lengths or ranks.
--
-- A metric with a graph is checked in the same way. One without a graph (item(), detach()) cannot
-- be, nor can a part of the loss without one.
local autograd = require "moonring.native.autograd"
local collectives = require "moonring.native.collectives"
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.contract
local contract = {}

local KINDS = { token = "sharded", sequence = "replicated" }

-- Names of collectives in scripts, by the names of their nodes.
local NAMES = { Spread = "batch:spread or batch:per_token", GatherRows = "batch:gather",
  ReduceScatterRows = "batch:reduce_scatter", AllToAllRows = "batch:all_to_all",
  AllReduceSumIdentityBackward = "a sum over the sp group (document_sums, sum)" }

local SPREAD_INSTEAD = "batch:per_token(values) gives one value per document back to the tokens, "
  .. "batch:spread(x) any tensor; or let level = \"sequence\" return a loss of documents only"

-- What to write where a value must be equal on all ranks.
local function sum_instead(level)
  return "sum over the ranks first, with batch:document_sums(values) or batch:sum(x)"
    .. (level == "sequence" and "; or let level = \"token\" return a sum over this rank's tokens"
    or "")
end

-- The parameter that a node of the graph uses, if it is a single one of a script.
local function parameter_of(node) return node:match "^UseOf(.*)$" end

-- What is wrong, and what to write instead.
local function words_of(level, name, what, node, inside)
  if what == "sum" then
    return NAMES[node] .. " is used as a value of this rank's tokens. Each rank's gradient would "
      .. "be that of its own share only, wrong where several ranks have tokens of a document: "
      .. SPREAD_INSTEAD
  elseif what == "share" then
    return ("the result of %s is a value of this rank's tokens, and it is used where a value must "
      .. "be equal on all ranks of the sp group: %s"):format(NAMES[node], sum_instead(level))
  elseif inside ~= "" then
    return ("the argument of %s must be equal on all ranks of the sp group, and it is made of this "
      .. "rank's tokens (%s): %s"):format(NAMES[inside], node, sum_instead(level))
  elseif parameter_of(node) then
    return ("the parameter %s is used after the sum over the sp group, or without one, so its "
      .. "gradient would be the sp size times too large: use it before the sum; or let level = "
      .. "\"token\" use it on batch:spread(sums) and return the loss on one rank of the sp group, "
      .. "mesh:sp_rank() == 0, and 0 times the loss on the others"):format(parameter_of(node))
  end
  return ("this %s is made of this rank's tokens (%s) without a sum over the sp group, so it would "
    .. "be the share of one rank: %s"):format(name, node, sum_instead(level))
end

local function source_of(objective)
  local found = debug and debug.getinfo(objective.loss, "S")
  if not found or found.what == "C" then return "objective" end
  return ("%s:%d: objective"):format(found.short_src, found.linedefined)
end

local function check(engine, name, value)
  if type(value) ~= "userdata" or not value:requires_grad() then return end
  local o = engine.objective
  local what, node, inside = collectives.kind_breach(value, KINDS[o.level])
  if not what then return end
  if not engine.has_trained then system.started(false) end -- a wrong script, not a failed run
  errors.fail(source_of(o), ": level = \"", o.level, "\", but in its ", name, " ",
    words_of(o.level, name:match "^%l+", what, node, inside))
end

--- Checks what an objective's loss returned for a micro-batch. The cost is that of walking the
--- graph. Errors: INVALID_ARGUMENT, with the objective's file and line and what to write instead.
---@param engine moonring.Engine
---@param sum moonring.Tensor
---@param metrics? table<string, table>
function contract.check(engine, sum, metrics)
  if not autograd.is_recording() then return end
  check(engine, "loss", sum)
  for name, metric in pairs(metrics or {}) do
    local pair = type(metric) == "table" and metric or { metric }
    -- The extreme of several ranks' values is the same, whether or not they are equal.
    for i = 1, pair[3] and 0 or 2 do check(engine, "metric " .. name, pair[i]) end
  end
end

return contract
