--- Errors as code and words: the one place that reads them. An error that Moonring raises is a
-- string "[place: ]CODE: words", as the guard of bound functions writes it
-- (lua/binding/guard.cc): `place` is "FILE:LINE: ", "FUNCTION: " or both, and is left out where the
-- host's own Lua calls; CODE is a name of absl's status codes.

---@class moonring.errors
local errors = {}

local CODES = {}
for _, code in ipairs {
  "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
  "PERMISSION_DENIED", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
  "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
} do
  CODES[code] = true
end

-- Whether a part of an error before ": " may stand before the code: FILE:LINE, or a function.
local function is_place(part) return part:find ":%d+$" ~= nil or part:find "^[%w_.:]+$" ~= nil end

-- Code, words and place ("" where there is none). The first code counts: words may quote another
-- error. Text without a code, or with other words before it, is words alone.
local function split(why)
  local text = tostring(why)
  local _, last = text:find "^%[string .-%]:%d+: " -- a chunk's name may hold ": "
  local from = (last or 0) + 1
  while true do
    local stop = text:find(": ", from, true)
    if not stop then return nil, text, "" end
    local part = text:sub(from, stop - 1)
    if CODES[part] then return part, text:sub(stop + 2), text:sub(1, from - 1) end
    if not is_place(part) then return nil, text, "" end
    from = stop + 2
  end
end

--- The status code of a caught error, such as "INVALID_ARGUMENT"; nil where it has none.
---@param why any what pcall returned
---@return string?
function errors.code(why) return (split(why)) end

--- Whether a caught error has this code.
---@param why any what pcall returned
---@param code string such as "ABORTED"
---@return boolean
function errors.is(why, code) return errors.code(why) == code end

--- The words of a caught error, without its place and code; all of it where it has no code.
---@param why any what pcall returned
---@return string
function errors.words(why)
  local _, words = split(why)
  return words
end

--- Raises an error of a code. No place is added: the words say what is wrong where.
---@param code string such as "DATA_LOSS"
---@param ... string | number the words, joined
function errors.raise(code, ...)
  if not CODES[code] then error("no status code " .. tostring(code), 2) end
  error(code .. ": " .. table.concat { ... }, 0)
end

--- Raises an INVALID_ARGUMENT, with which a command ends with exit code 2.
---@param ... string | number the words, joined
function errors.fail(...) errors.raise("INVALID_ARGUMENT", ...) end

--- Gives a caught error's words another beginning and keeps its code; what has no code becomes an
--- INVALID_ARGUMENT.
---@param why any what pcall returned
---@param ... string | number what stands before the words, joined
function errors.prefix(why, ...)
  errors.raise(errors.code(why) or "INVALID_ARGUMENT", table.concat { ... }, errors.words(why))
end

--- Calls a function that a key of a configuration asks for. Words of its error that do not begin
--- with the key get it before them.
---@param key string
---@param f function
---@param ... any what f takes
---@return any ... what f gives
function errors.of_key(key, f, ...)
  local function answer(ok, ...)
    if ok then return ... end
    local words = errors.words((...))
    if words:find("^" .. key .. "[%s:]") then error((...), 0) end
    errors.prefix((...), key, ": ")
  end
  return answer(pcall(f, ...))
end

--- Calls a function whose errors may begin with a key that another key of a configuration stands
--- for here: they begin with this one then. Other errors stay as they are.
---@param key string
---@param instead_of string
---@param f function
---@param ... any what f takes
---@return any ... what f gives
function errors.of_key_instead(key, instead_of, f, ...)
  local function answer(ok, ...)
    if ok then return ... end
    local words, count = errors.words((...)):gsub("^" .. instead_of .. ": ", key .. ": ")
    if count == 0 then error((...), 0) end
    errors.raise(errors.code((...)) or "INVALID_ARGUMENT", words)
  end
  return answer(pcall(f, ...))
end

return errors
