--- Checks at an engine's first step whether the parameters that the loss reaches are those that are
-- trained. A script's own weights that are in no list get gradients, but no sum over the ranks and
-- no update: they would keep their first values without a word.
local comm = require "moonring.native.comm"
local errors = require "moonring.base.errors"

---@class moonring.gradient_checks
local gradient_checks = {}

local MOST_NAMES = 5

local function listed(names)
  local some = {}
  for i = 1, math.min(#names, MOST_NAMES) do some[i] = names[i] end
  return table.concat(some, ", ") .. (#names > MOST_NAMES and ", .." or "")
end

--- Call it before the forward of a step. Returns nil except at the engine's first step.
---@param engine moonring.Engine
---@return table<string, boolean>? before names of unlisted parameters that have a gradient already
function gradient_checks.begin(engine)
  if engine.has_checked_gradients then return nil end
  engine.has_checked_gradients = true
  local before = {}
  for _, name in ipairs(comm.unlisted(engine.parameters)) do before[name] = true end
  return before
end

--- Call it after the backwards of the step. Collective over all ranks at the engine's first step.
--- Errors: INVALID_ARGUMENT if the loss reaches trainable parameters that a script made and that
--- are not among the engine's, on all ranks if it does on any.
---@param engine moonring.Engine
---@param before? table<string, boolean> result of `begin`
---@param k integer the step's number
function gradient_checks.unlisted(engine, before, k)
  if not before then return end
  local mine, known, names = {}, {}, {}
  for _, name in ipairs(comm.unlisted(engine.parameters)) do
    if not before[name] then mine[#mine + 1] = name end
  end
  for _, text in ipairs(engine.mesh:gather(table.concat(mine, "\n"))) do
    for name in text:gmatch "[^\n]+" do
      if not known[name] then names[#names + 1] = name end
      known[name] = true
    end
  end
  if #names == 0 then return end
  table.sort(names)
  errors.fail("step ", k, ": the loss reaches parameters that nothing would train: ",
    listed(names), "; expected them in the objective's `parameters` (a module's are ",
    "module:parameters()), or weights made with { trainable = false }")
end

--- Call it after the sum over ranks. Says in one line at the first step which trained parameters
--- have no gradient on any rank.
---@param engine moonring.Engine
---@param before? table<string, boolean> result of `begin`
---@param k integer the step's number
---@param say? fun(line: string) default: prints it on rank 0
function gradient_checks.unreached(engine, before, k, say)
  if not before then return end
  local all = engine.states and engine.states:parameters() or engine.parameters
  local absent, names, size = {}, {}, 0
  for _, name in ipairs(all:without_gradient()) do absent[name] = true end
  for _, parameter in ipairs(engine.parameters:list()) do
    if parameter:trainable() then -- a block that waits for its turn (BAdam) is not
      size = size + 1
      if absent[parameter:name()] then names[#names + 1] = parameter:name() end
    end
  end
  if #names == 0 then return end
  local line = ("step %d: the loss does not depend on %d of %d parameters (%s); they keep their "
    .. "values while that is so"):format(k, #names, size, listed(names))
  if say then return say(line) end
  if engine.mesh:rank() == 0 then print(line) end
end

return gradient_checks
