--- The tokens that `moonring probe` is given, and what it reads off at some of them.
local comm = require "moonring.native.comm"
local config = require "moonring.config"
local objectives = require "moonring.native.objectives"
local system = require "moonring.native.system"
local tensors = require "moonring.native.tensor"

local probe = {}
local SHOWN_IDS = 8

local function integers(where, name, list)
  if type(list) ~= "table" then config.fail(where, ": ", name, ": wanted a list of integers, got ", type(list) == "nil" and "nothing" or tostring(list)) end
  for i, value in ipairs(list) do
    if type(value) ~= "number" or value ~= math.floor(value) then config.fail(where, ": ", name, "[", i - 1, "]: wanted an integer, got ", tostring(value)) end
  end
  return list
end

function probe.read(path)
  local input = system.json_decode(system.read(path), path)
  if type(input) ~= "table" then config.fail(path, ": wanted an object") end
  local known = { input_ids = true, labels = true, positions = true, lengths = true }
  for name in pairs(input) do
    if not known[name] then config.fail(path, ": unknown key '", tostring(name), "'", system.did_you_mean(tostring(name), { "input_ids", "labels", "positions", "lengths" })) end
  end
  local ids = integers(path, "input_ids", input.input_ids)
  if #ids == 0 then config.fail(path, ": input_ids is empty") end
  local labels = integers(path, "labels", input.labels)
  if #labels ~= #ids then config.fail(path, ": ", #labels, " labels for ", #ids, " input_ids") end
  local lengths, total = integers(path, "lengths", input.lengths or { #ids }), 0
  for _, length in ipairs(lengths) do total = total + length end
  if total ~= #ids then config.fail(path, ": lengths sum to ", total, ", there are ", #ids, " input_ids") end
  local positions = integers(path, "positions", input.positions or {})
  for _, place in ipairs(positions) do
    if place < 0 or place >= #ids then config.fail(path, ": positions: ", place, " is outside the ", #ids, " input_ids") end
  end
  return { ids = ids, labels = labels, lengths = lengths, positions = positions }
end

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

--- Logits of the first ids and the logsumexp at `places` of the stream, wherever in the sp group they are.
function probe.places(model, mesh, layout, hidden, places)
  local row_of = {}
  for row, place in ipairs(layout:indices()[mesh:sp_rank() + 1]:tolist()) do row_of[place] = row - 1 end
  local logits, logsumexp = {}, {}
  for i, place in ipairs(places) do
    local at, lse = {}, 0
    for id = 1, SHOWN_IDS do at[id] = 0 end
    if row_of[place] then
      local row = row_of[place]
      local some, sum = objectives.logits(hidden:detach():slice(row, row + 1), model:head(), SHOWN_IDS, { dtype = model:matmul_dtype() })
      at, lse = some:tolist()[1], sum:tolist()[1]
    end
    logits[i] = mesh:sum_sp(tensors.tensor(at, "fp64")):tolist()
    logsumexp[i] = mesh:sum_sp(tensors.tensor({ lse }, "fp64")):tolist()[1]
  end
  return { logits = logits, logsumexp = logsumexp }
end

return probe
