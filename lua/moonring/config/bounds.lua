--- Checks single keys by their rows in the table of keys: bounds, stages and finetuning types.
local errors = require "moonring.base.errors"
local keys = require "moonring.config.keys"
local system = require "moonring.native.system"

---@class moonring.bounds
local bounds = {}

local function plain(number) return number > 2 ^ 31 and ("%.0f"):format(number) or number end

--- Describes a row's bounds as text: "0 or more", "1 to 3", "more than 0 and at most 1", "0 or more
--- and below 1".
---@param row moonring.KeyRow
---@return string? words nil if all numbers are allowed
function bounds.words(row)
  local above, least, most = row.above, row.least, row.most
  if row.below then
    return (above and "more than " .. above or least .. " or more") .. " and below " .. row.below
  elseif above then
    return "more than " .. above .. (most and " and at most " .. most or "")
  elseif most then
    return ("%s to %s"):format(plain(least), plain(most))
  end
  return least and (least == 0 and "0 or more" or "at least " .. least)
end

-- The error of a number out of bounds; nil if there is none.
local function out_of_bounds(row, value)
  local above, least, most = row.above, row.least, row.most
  if above and not (value > above) or least and not (value >= least)
    or most and not (value <= most) or row.below and not (value < row.below) then
    return ("%s: expected %s, got %s"):format(row[1], bounds.words(row), tostring(value))
  end
end

local function contains(list, value)
  for _, each in ipairs(list) do
    if each == value then return true end
  end
  return false
end

-- Describes the stages or finetuning types in which a key has an effect: "stages dpo and kto"; nil
-- if it has one in this configuration.
local function elsewhere(c, row)
  local of, stages = row.finetuning, row.stages
  if type(of) == "string" then of = { of } end
  if of and not contains(of, c.finetuning_type) then
    return "finetuning_type " .. table.concat(of, " and ")
  end
  if not stages or contains(stages, c.stage) then return nil end
  return (#stages > 1 and "stages " or "stage ") .. table.concat(stages, " and ")
end

--- Raises one error about all numbers out of bounds and all keys that are set but belong to other
--- stages or finetuning types; for each with its position in the file. Errors: INVALID_ARGUMENT.
---@param c moonring.Configuration
function bounds.check(c)
  local problems = {}
  for row in keys.rows() do
    local name, value, given = row[1], c[row[1]], c.given[row[1]]
    -- training_args.yaml contains every key, so a default value does not count as set.
    local is_given = given ~= nil and given ~= system.null and given ~= false and value ~= row[3]
    local where = is_given and elsewhere(c, row)
    local problem = value and out_of_bounds(row, value)
      or where and name .. " is for " .. where .. " alone"
    if problem then problems[#problems + 1] = (c.places[name] or "") .. problem end
  end
  if #problems > 0 then errors.fail(table.concat(problems, "; ")) end
end

return bounds
