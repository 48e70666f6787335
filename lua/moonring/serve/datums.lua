--- The datums of a forward_backward request: their numbers joined to tensors of the whole call. A
-- datum has N input tokens and N targets, given explicitly: position i scores target i after the
-- tokens 0 to i. Its targets may have a second dim: K candidates at each position.
local creation = require "moonring.base.creation"
local ops = require("moonring.native.operators").ops

---@class moonring.serve.datums
local datums = {}

--- As serve.read_forward_backward returns it.
---@class moonring.serve.Datum
---@field tokens moonring.Tensor int64 [N]
---@field inputs table<string, moonring.Tensor> target_tokens and the loss's inputs

--- The numbers of all datums, concatenated: S positions. Tensors are [S]; if a datum has several
--- candidates, [S, K] with the largest K, where cells without a target have the target -100 and
--- inputs of 0.
---@class moonring.serve.Joined
---@field firsts integer[] of each datum, its first position, from 0
---@field lengths integer[] of each datum, its number of tokens
---@field shapes integer[][] of each datum, the shape of its targets
---@field targets moonring.Tensor int64
---@field inputs table<string, moonring.Tensor> fp64
---@field size integer S

-- Joins tensors [N] or [N, K] to [S], or to [S, most] if `most` is given, with `filler` in cells
-- that no tensor has.
local function join(list, most, filler)
  if not most then return ops.cat(list) end
  local wide = {}
  for i, each in ipairs(list) do
    if each:dim() == 1 then each = each:unsqueeze(1) end
    wide[i] = each:constant_pad_nd({ 0, most - each:size(1) }, filler)
  end
  return ops.cat(wide)
end

-- The largest K; nil if all targets have one dim.
local function most_candidates(list)
  local most
  for _, datum in ipairs(list) do
    local targets = datum.inputs.target_tokens
    if targets:dim() == 2 then most = math.max(most or 1, targets:size(1)) end
  end
  return most
end

--- Joins the numbers of all datums, which datum_checks.check has accepted.
---@param list moonring.serve.Datum[]
---@param loss moonring.serve.Loss
---@return moonring.serve.Joined
function datums.join(list, loss)
  local joined = { firsts = {}, lengths = {}, shapes = {}, inputs = {}, size = 0 }
  local targets, most = {}, most_candidates(list)
  for i, datum in ipairs(list) do
    targets[i] = datum.inputs.target_tokens:to "int64"
    joined.firsts[i], joined.lengths[i] = joined.size, datum.tokens:numel()
    joined.shapes[i] = targets[i]:shape()
    joined.size = joined.size + joined.lengths[i]
  end
  joined.targets = join(targets, most, -100)
  for name, otherwise in pairs(loss.inputs) do
    local values = {}
    for i, datum in ipairs(list) do
      local given = datum.inputs[name]
      values[i] = given and given:to "fp64"
        or creation.full(joined.shapes[i], otherwise, { dtype = "fp64" })
    end
    joined.inputs[name] = join(values, most, 0)
  end
  return joined
end

--- The positions of some datums in the joined tensors, concatenated.
---@param joined moonring.serve.Joined
---@param places integer[] numbers of datums, from 0
---@return moonring.Tensor int64
function datums.positions(joined, places)
  local rows = {}
  for i, place in ipairs(places) do
    local first = joined.firsts[place + 1]
    rows[i] = creation.arange(first, first + joined.lengths[place + 1])
  end
  return ops.cat(rows)
end

--- Cuts values of all positions into those of each datum, in the shapes of their targets.
---@param joined moonring.serve.Joined
---@param values moonring.Tensor [S] or [S, K]
---@return moonring.Tensor[]
function datums.split(joined, values)
  local list = {}
  for i, first in ipairs(joined.firsts) do
    local own = values:narrow(0, first, joined.lengths[i])
    local shape = joined.shapes[i]
    if values:dim() == 2 then own = own:narrow(1, 0, shape[2] or 1) end
    list[i] = own:reshape(shape):clone()
  end
  return list
end

--- Where a position of the joined tensors is, as words: "datum 2, position 5".
---@param joined moonring.serve.Joined
---@param flat integer index of an element
---@return string
function datums.place(joined, flat)
  local k = joined.targets:dim() == 2 and joined.targets:size(1) or 1
  local row = math.floor(flat / k)
  for i = #joined.firsts, 1, -1 do
    if row >= joined.firsts[i] then
      return ("datum %d, position %d"):format(i - 1, row - joined.firsts[i])
        .. (#joined.shapes[i] == 2 and (", candidate %d"):format(flat % k) or "")
    end
  end
end

return datums
