--- moonring idle_steps.lua KIND LAST CONFIG.yaml|key=value...: trains; the steps from the second to
-- LAST have nothing to train on. KIND:
--   labels  all labels are -100
--   rows    no rank has any example
local moonring = require "moonring"
local batching = require "moonring.choices.batching"
local kind, last = table.remove(arg, 1), tonumber(table.remove(arg, 1))

local function always(value) return function() return value end end

-- Returns an object with the fields of `own`, and those of `object` otherwise.
local function over(object, own)
  return setmetatable(own, { __index = function(_, name)
    return function(_, ...) return object[name](object, ...) end
  end })
end

local function without_labels(micro)
  local sequence = micro:sequence()
  local ids, documents, labels, begin = sequence:ids():tolist(), {}, {}, 0
  for d, length in ipairs(sequence:lengths()) do
    documents[d], labels[d] = {}, {}
    for i = 1, length do documents[d][i], labels[d][i] = ids[begin + i], -100 end
    begin = begin + length
  end
  local flat = {}
  for i = 1, #ids do flat[i] = -100 end
  local unlabelled = moonring.comm.sequence { documents = documents, labels = labels }
  return over(micro, { sequence = always(unlabelled),
    labels = always(moonring.tensor(flat, "int64")) })
end

local function changed(micros)
  local list = {}
  for i, micro in ipairs(kind == "labels" and micros or {}) do list[i] = without_labels(micro) end
  return list
end

local make = batching.steps
function batching.steps(...)
  local steps, k = make(...), 0
  return over(steps, { next = function()
    local step = steps:next()
    k = k + 1
    if not step or k == 1 or k > last then return step end
    return over(step, { micro_batches = always(changed(step:micro_batches())),
      mismatched = always(changed(step:mismatched())) })
  end })
end

dofile(moonring.system.script_path "train")
