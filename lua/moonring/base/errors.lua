--- Errors with a status code. Such an error is a table { code, message, place } that can be used
-- like its text, "PLACE: CODE: MESSAGE" (lua/binding/error_value.h). Native functions raise them,
-- and Moonring's modules raise them through this one. An error without a code is anything else that
-- a script raises, such as `error "text"`.
local native = require "moonring.native.errors"

---@class moonring.errors
local errors = {}

---@class moonring.Error
---@field code string the name of an absl status code, such as "INVALID_ARGUMENT"
---@field message string
---@field place string "FILE:LINE", "FUNCTION" or "FILE:LINE: FUNCTION"; "" if the call was made by
--- Moonring's own Lua code
---@field out_of_memory? boolean memory ran out, not a disk or another limit

--- The status code of a caught error, such as "INVALID_ARGUMENT"; nil where it has none.
---@param why any what pcall returned
---@return string?
function errors.code(why) return (native.code(why)) end

--- Whether a caught error has this code.
---@param why any what pcall returned
---@param code string such as "ABORTED"
---@return boolean
function errors.is(why, code) return errors.code(why) == code end

--- The message of a caught error, without its place and code; the whole text if it has no code.
---@param why any what pcall returned
---@return string
function errors.words(why) return errors.code(why) and why.message or tostring(why) end

--- The text of a caught error as a command line shows it: without the code if no place precedes it.
---@param why any what pcall returned
---@return string
function errors.shown(why)
  return errors.code(why) and why.place == "" and why.message or tostring(why)
end

--- Whether memory ran out, and not a disk or another limit.
---@param why any what pcall returned
---@return boolean
function errors.out_of_memory(why) return errors.code(why) ~= nil and why.out_of_memory == true end

--- A caught error as text, to send it to other ranks.
---@param why any what pcall returned
---@return string
function errors.encode(why)
  local code = errors.code(why)
  return table.concat({ code or "", code and why.place or "",
    errors.out_of_memory(why) and "memory" or "", errors.words(why) }, "\n")
end

--- The error that `encode` converted.
---@param text string
---@return moonring.Error | string
function errors.decode(text)
  local code, place, memory, message = text:match "^(.-)\n(.-)\n(.-)\n(.*)$"
  return code == "" and message or native.new(code, message, place, memory ~= "")
end

--- An error with a status code, to return or to raise with `error(why, 0)`.
---@param code string such as "DATA_LOSS"
---@param ... string | number pieces of the message, concatenated
---@return moonring.Error
function errors.new(code, ...) return native.new(code, table.concat { ... }) end

--- Raises an error with a status code. It adds no FILE:LINE: the message states what is
--- wrong and where.
---@param code string such as "DATA_LOSS"
---@param ... string | number pieces of the message, concatenated
function errors.raise(code, ...) error(errors.new(code, ...), 0) end

--- Raises an INVALID_ARGUMENT; a command that fails with it exits with code 2.
---@param ... string | number pieces of the message, concatenated
function errors.fail(...) errors.raise("INVALID_ARGUMENT", ...) end

--- Raises a caught error again, with another message and without its place. All else stays the
--- same; an error without a code becomes INVALID_ARGUMENT.
---@param why any what pcall returned
---@param ... string | number pieces of the message, concatenated
function errors.reword(why, ...)
  error(native.new(errors.code(why) or "INVALID_ARGUMENT", table.concat { ... }, "",
    errors.out_of_memory(why)), 0)
end

--- Raises a caught error again, as `reword`, with a prefix before its message.
---@param why any what pcall returned
---@param ... string | number pieces of the prefix, concatenated
function errors.prefix(why, ...) errors.reword(why, table.concat { ... }, errors.words(why)) end

--- The same error with text after its message.
---@param why any what pcall returned
---@param ... string | number pieces of the text, concatenated
---@return moonring.Error | string
function errors.with(why, ...)
  local code, message = errors.code(why), errors.words(why) .. table.concat { ... }
  return code and native.new(code, message, why.place, errors.out_of_memory(why)) or message
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
    errors.reword((...), words)
  end
  return answer(pcall(f, ...))
end

return errors
