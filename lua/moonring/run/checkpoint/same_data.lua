--- Checks that ranks that share sequences (an sp group) read the same data. If their data files
-- differed, all results would be silently wrong.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.same_data
local same_data = {}

-- A checksum over a step's sequences, labels and, for KTO, desirable flags. The unshifted labels
-- are used because they also differ where the shifted targets do not.
local function checksum(step)
  local sum, tags = 0, {}
  for _, micros in ipairs { step:micro_batches(), step:mismatched() } do
    for _, micro in ipairs(micros) do
      sum = micro:sequence():checksum(sum, micro:labels())
      for _, desirable in ipairs(micro:desirable() or {}) do
        tags[#tags + 1] = desirable and "1" or "0"
      end
    end
  end
  if #tags == 0 then return sum end
  return bit.bxor(sum, tonumber(system.sha1(table.concat(tags)):sub(1, 8), 16)) % 2 ^ 32
end

--- Ends the run if ranks of an sp group have different examples. Errors: DATA_LOSS, with ranks and
--- examples. One all-reduce over each sp group; every rank must call it.
---@param mesh moonring.Mesh
---@param step moonring.Step
---@param what string the beginning of the message: "step 3"
function same_data.check(mesh, step, what)
  if mesh:sp_size() == 1 then return end
  local sum = checksum(step)
  if mesh:same_sp(sum) then return end
  local examples = table.concat(step:examples(), ", ")
  local ranks = mesh:gather_sp(("checksum %08x of examples %s"):format(sum, examples))
  local first = mesh:rank() - mesh:sp_rank()
  for i, text in ipairs(ranks) do ranks[i] = ("rank %d has %s"):format(first + i - 1, text) end
  errors.raise("DATA_LOSS", what, ": ranks that share sequences read other ones: ",
    table.concat(ranks, "; "), "; are the data files the same on every machine?")
end

return same_data
