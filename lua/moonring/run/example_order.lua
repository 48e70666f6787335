--- A custom order of examples (run.open's option `order`), such as a curriculum. The order decides
-- which examples a step has, so it affects results. The order is a function of the epoch alone, so
-- it is the same on all ranks and after a resume.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.example_order
local example_order = {}

-- Converts a list of positions, from 1, to indices from 0, and checks that it contains each
-- position once.
local function indices(list, n, epoch)
  local function refuse(...)
    errors.fail("order: epoch ", epoch, ": expected each of the places 1 to ", n, " once, got ",
      ...)
  end
  if type(list) ~= "table" then refuse("a ", type(list)) end
  if #list ~= n then refuse(#list, " places") end
  local taken, zero_based = {}, {}
  for i = 1, n do
    local place = list[i]
    if type(place) ~= "number" or place % 1 ~= 0 or place < 1 or place > n then
      refuse(tostring(place), " among them")
    end
    if taken[place] then refuse(place, " twice") end
    taken[place], zero_based[i] = true, place - 1
  end
  return zero_based
end

--- Computes the order of every epoch of the run. Stores the orders in of.orders and their digest in
--- of.order_digest.
---@param order fun(lengths: integer[], epoch: integer): integer[]
---@param dataset moonring.Dataset
---@param mesh moonring.Mesh
---@param of moonring.Counts
function example_order.settle(order, dataset, mesh, of)
  if not dataset:size() then
    errors.fail("order: the examples of a stream are in the order in which they come")
  end
  local ok, why = pcall(function()
    of.orders = {}
    for epoch = 0, math.ceil(of.total_steps / of.steps_per_epoch) - 1 do
      local done, list = pcall(order, dataset:lengths(), epoch)
      if not done then errors.prefix(list, "order: epoch ", epoch, ": ") end
      of.orders[epoch + 1] = indices(list, dataset:size(), epoch)
    end
    of.order_digest = system.sha1(system.json_encode(of.orders))
  end)
  local all = mesh:gather(ok and of.order_digest or "!" .. errors.encode(why))
  for rank, text in ipairs(all) do
    if text:sub(1, 1) == "!" then error(errors.decode(text:sub(2)), 0) end
    if text ~= all[1] then
      errors.raise("DATA_LOSS", "order: rank ", rank - 1, " has another one than rank 0; it must ",
        "be the same on every rank")
    end
  end
end

return example_order
