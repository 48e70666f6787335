--- Reads the input of `moonring probe`, and computes the values that it reports at given positions.
local comm = require "moonring.native.comm"
local config = require "moonring.config"
local errors = require "moonring.base.errors"
local objectives = require "moonring.native.objectives"
local system = require "moonring.native.system"
local tensors = require "moonring.native.tensor"

---@class moonring.probe
local probe = {}

---@class moonring.ProbeInput
---@field ids integer[]
---@field labels integer[] unshifted; -100: no label
---@field lengths integer[] tokens of each document
---@field positions integer[] positions in the stream to report, from 0

local SHOWN_IDS, IGNORE = 8, -100

-- Checks a list of integers, which must be in [least, limit). With `ignore`, IGNORE (-100) is
-- allowed, too.
local function integers(where, name, list, least, limit, ignore)
  local function refuse(place, wanted, got)
    config.fail(where, ": ", name, place, ": expected ", wanted, ", got ", got == nil and "nothing"
      or system.json_encode(got))
  end
  if type(list) ~= "table" or (#list == 0 and next(list) ~= nil) then
    refuse("", "a list of integers", list)
  end
  for i, value in ipairs(list) do
    local place = "[" .. i - 1 .. "]"
    if type(value) ~= "number" or value ~= math.floor(value) then
      refuse(place, "an integer", value)
    end
    if (value < least or value >= limit) and not (ignore and value == IGNORE) then
      refuse(place, limit == math.huge and "at least " .. least or least .. " to " .. limit - 1
        .. (ignore and " or " .. IGNORE or ""), value)
    end
  end
  return list
end

--- Reads { input_ids, labels, positions?, lengths? } from a JSON file and checks all numbers. If
--- lengths is absent, the input is one document.
---@param path string
---@param vocab_size integer upper bound of ids, exclusive
---@return moonring.ProbeInput
function probe.read(path, vocab_size)
  local input = system.json_decode(system.read(path), path)
  if type(input) ~= "table" or #input > 0 then
    config.fail(path, ": expected an object {...} with input_ids and labels")
  end
  local known = { input_ids = true, labels = true, positions = true, lengths = true }
  for name in pairs(input) do
    if not known[name] then
      config.fail(path, ": unknown key '", tostring(name), "'",
        system.did_you_mean(tostring(name), { "input_ids", "labels", "positions", "lengths" }))
    end
  end
  local ids = integers(path, "input_ids", input.input_ids, 0, vocab_size)
  if #ids == 0 then config.fail(path, ": input_ids is empty") end
  local labels = integers(path, "labels", input.labels, 0, vocab_size, true)
  if #labels ~= #ids then config.fail(path, ": ", #labels, " labels for ", #ids, " input_ids") end
  local lengths, total = integers(path, "lengths", input.lengths or { #ids }, 0, math.huge), 0
  for _, length in ipairs(lengths) do total = total + length end
  if total ~= #ids then
    config.fail(path, ": lengths sum to ", total, ", there are ", #ids, " input_ids")
  end
  local positions = integers(path, "positions", input.positions or {}, 0, #ids)
  return { ids = ids, labels = labels, lengths = lengths, positions = positions }
end

--- Converts the input to a packed stream of documents.
---@param input moonring.ProbeInput
---@return moonring.Sequence
function probe.sequence(input)
  local documents, labels, start = {}, {}, 0
  for d, length in ipairs(input.lengths) do
    documents[d], labels[d] = {}, {}
    for i = 1, length do
      documents[d][i], labels[d][i] = input.ids[start + i], input.labels[start + i]
    end
    start = start + length
  end
  return comm.sequence { documents = documents, labels = labels }
end

--- Computes the gradient of a loss, summed over all ranks. With a loss scale, forward and backward
--- are repeated with smaller scales until no gradient overflows. Collective over all ranks. Errors:
--- ABORTED if the norm is not finite.
---@param forward fun(): moonring.Tensor, moonring.Tensor returns the loss and the hidden states
---@param states moonring.States
---@param scale? moonring.LossScale
---@return moonring.Tensor loss result of the last forward
---@return moonring.Tensor hidden
function probe.backward(forward, states, scale)
  local loss, hidden = forward()
  if not scale then
    loss:backward()
    states:sum_gradients()
    return loss, hidden
  end
  while true do
    scale:of(loss):backward()
    states:sum_gradients()
    local ok, norm = pcall(states.norm, states)
    if ok then
      states:clip { norm = norm / scale.scale, max_norm = 0, loss_scale = scale.scale }
      return loss, hidden
    end
    if not errors.is(norm, "ABORTED") or not scale:shrink() then error(norm, 0) end
    states:clear_gradients()
    loss, hidden = forward()
  end
end

--- The logits of ids 0 to 7 and the logsumexp at positions of the stream. A position may be on any
--- rank of the sp group; all ranks get all values. Collective over the sp group.
---@param model moonring.Model
---@param mesh moonring.Mesh
---@param layout moonring.Layout
---@param hidden moonring.Tensor [T_local, D]
---@param places integer[] positions, from 0
---@return { logits: number[][], logsumexp: number[] }
function probe.places(model, mesh, layout, hidden, places)
  local row_of = {}
  for row, place in ipairs(layout:indices()[mesh:sp_rank() + 1]:tolist()) do
    row_of[place] = row - 1
  end
  local logits, logsumexp = {}, {}
  for i, place in ipairs(places) do
    local at, lse = {}, 0
    for id = 1, SHOWN_IDS do at[id] = 0 end
    if row_of[place] then
      local row = row_of[place]
      local some, sum = objectives.logits(hidden:detach():narrow(0, row, 1), model:head(),
        SHOWN_IDS, { dtype = model:matmul_dtype() })
      at, lse = some:tolist()[1], sum:tolist()[1]
    end
    logits[i] = mesh:sum_sp(tensors.tensor(at, "fp64")):tolist()
    logsumexp[i] = mesh:sum_sp(tensors.tensor({ lse }, "fp64")):tolist()[1]
  end
  return { logits = logits, logsumexp = logsumexp }
end

return probe
