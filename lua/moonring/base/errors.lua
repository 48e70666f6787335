--- Parses and raises errors that have a status code; no other module parses such errors. An error
-- of Moonring is a string "[place: ]CODE: message", written by the wrapper of native functions
-- (lua/binding/guard.cc). The place is "FILE:LINE: ", "FUNCTION: " or both; it is empty if the
-- host's own Lua code made the call. CODE is the name of an absl status code.

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

-- Whether this text may stand before the code of an error: FILE:LINE, or the name of a function.
local function is_place(part) return part:find ":%d+$" ~= nil or part:find "^[%w_.:]+$" ~= nil end

-- Splits an error into code, message and place ("" if absent). Only the first code counts, because
-- a message may quote another error. If there is no code, or other words before it, the whole text
-- is the message.
local function split(why)
  local text = tostring(why)
  local _, last = text:find "^%[string .-%]:%d+: " -- a chunk's name may contain ": "
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

--- The message of a caught error, without its place and code; the whole text if it has no code.
---@param why any what pcall returned
---@return string
function errors.words(why)
  local _, words = split(why)
  return words
end

--- Raises an error with a status code. It adds no FILE:LINE: the message states what is
--- wrong and where.
---@param code string such as "DATA_LOSS"
---@param ... string | number pieces of the message, concatenated
function errors.raise(code, ...)
  if not CODES[code] then error("no status code " .. tostring(code), 2) end
  error(code .. ": " .. table.concat { ... }, 0)
end

--- Raises an INVALID_ARGUMENT; a command that fails with it exits with code 2.
---@param ... string | number pieces of the message, concatenated
function errors.fail(...) errors.raise("INVALID_ARGUMENT", ...) end

--- Raises a caught error again, with a prefix before its message. The code stays the same; an error
--- without a code becomes INVALID_ARGUMENT.
---@param why any what pcall returned
---@param ... string | number pieces of the prefix, concatenated
function errors.prefix(why, ...)
  errors.raise(errors.code(why) or "INVALID_ARGUMENT", table.concat { ... }, errors.words(why))
end

--- Calls f on behalf of a key of the configuration. If f raises an error whose message does not
--- begin with the key, the key is added as a prefix.
---@param key string
---@param f function
---@param ... any arguments of f
---@return any ... results of f
function errors.of_key(key, f, ...)
  local function answer(ok, ...)
    if ok then return ... end
    local words = errors.words((...))
    if words:find("^" .. key .. "[%s:]") then error((...), 0) end
    errors.prefix((...), key, ": ")
  end
  return answer(pcall(f, ...))
end

--- Calls f. If f raises an error that begins with the key `instead_of`, replaces this by `key`, the
--- key that the user set. Other errors pass unchanged.
---@param key string
---@param instead_of string the key in f's errors
---@param f function
---@param ... any arguments of f
---@return any ... results of f
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
