--- Errors as Lua sees them: one string, "[place: ]CODE: words", CODE one of absl's names of a
-- status. This is the one place that takes such a string apart.
local errors = {}

local CODES = { "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
  "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
  "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED" }

local function split(why)
  local text, code, words = tostring(why), nil, nil
  local first = math.huge
  for _, each in ipairs(CODES) do
    local from, to = text:find(each .. ": ", 1, true)
    if from and from < first and (from == 1 or text:sub(from - 2, from - 1) == ": ") then
      first, code, words = from, each, text:sub(to + 1)
    end
  end
  return code, words or text
end

function errors.code(why) return (split(why)) end

function errors.words(why) return (select(2, split(why))) end

function errors.is(why, code) return errors.code(why) == code end

function errors.fail(...) error("INVALID_ARGUMENT: " .. table.concat({ ... }), 0) end

return errors
