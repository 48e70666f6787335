-- Reading errors: errors_test.lua. Raises one error that lists all failures.
local errors = require "moonring.base.errors"
local comm = require "moonring.native.comm"
local native = require "moonring.native.errors"

local failures = {}
local function check(condition, ...)
  if not condition then failures[#failures + 1] = table.concat({ ... }) end
end

for _, case in ipairs {
  { native.new("ABORTED", "a: b"), "ABORTED", "a: b", "ABORTED: a: b", "a: b" },
  { native.new("INTERNAL", "x", "run.lua:12"), "INTERNAL", "x", "run.lua:12: INTERNAL: x",
    "run.lua:12: INTERNAL: x" },
  { "INTERNAL: a text", nil, "INTERNAL: a text", "INTERNAL: a text", "INTERNAL: a text" },
  { setmetatable({ code = "ABORTED" }, { __tostring = function() return "mine" end }), nil, "mine",
    "mine", "mine" }, -- a script's own object
} do
  local why, code, words, text, shown = unpack(case, 1, 5)
  check(errors.code(why) == code, text, " has the code ", tostring(errors.code(why)))
  check(errors.words(why) == words, text, " has the message ", errors.words(why))
  check(tostring(why) == text, text, " is the text ", tostring(why))
  check(errors.shown(why) == shown, text, " is shown as ", errors.shown(why))
  check(not code or errors.is(why, code), text, " is not ", tostring(code))
  check(not errors.is(why, "UNAVAILABLE"), text, " is UNAVAILABLE")
  local sent = errors.decode(errors.encode(why))
  check(errors.code(sent) == code and tostring(sent) == text, text, " is sent as ", tostring(sent))
end

-- An error can be used like its text.
local value = native.new("NOT_FOUND", "no file", "f.lua:1: read")
check(value .. "!" == "f.lua:1: read: NOT_FOUND: no file!"
  and "<" .. value == "<" .. tostring(value), "concatenation gives ", value .. "!")
check(value:find("no file", 1, true) == 27 and value:upper():sub(1, 2) == "F.",
  "methods of strings")
check(("%s"):format(value) == tostring(value), "format gives ", ("%s"):format(value))
check(value.code == "NOT_FOUND" and value.message == "no file" and value.place == "f.lua:1: read"
  and value.other == nil, "its fields")
check(getmetatable(value) == false, "its metatable can be changed")

-- Memory is a property of the error, not of its words; it survives a prefix and other ranks.
local full = native.new("RESOURCE_EXHAUSTED", "no room", "", true)
check(errors.out_of_memory(full) and not errors.out_of_memory(
  native.new("RESOURCE_EXHAUSTED", "out of memory")), "out_of_memory")
local _, prefixed = pcall(errors.prefix, full, "step 3: ")
check(errors.out_of_memory(prefixed) and errors.out_of_memory(errors.decode(errors.encode(full)))
  and errors.out_of_memory(errors.with(full, "; stopped")), "out_of_memory is lost")
local _, renamed = pcall(errors.of_key_instead, "batch", "tokens", errors.prefix, full, "tokens: ")
check(tostring(renamed) == "RESOURCE_EXHAUSTED: batch: no room" and errors.out_of_memory(renamed),
  "of_key_instead gives ", tostring(renamed))

-- The guard's text for an error of a bound function, with the position in the script.
local done, why = pcall(comm.mesh, { sequence_parallel_size = 3 })
check(not done and errors.code(why) == "INVALID_ARGUMENT", "comm.mesh says ", tostring(why))
check(not errors.words(why):find "INVALID_ARGUMENT", "its words are ", errors.words(why))
check(why.place:find "errors_test.lua:%d+: moonring%.comm%.mesh$", "its place is ", why.place)

-- A raised error can be parsed again.
local _, raised = pcall(errors.raise, "DATA_LOSS", "row ", 3, ": x")
check(tostring(raised) == "DATA_LOSS: row 3: x", "raise gives ", tostring(raised))
_, raised = pcall(errors.fail, "key: ", 1)
check(tostring(raised) == "INVALID_ARGUMENT: key: 1", "fail gives ", tostring(raised))
_, raised = pcall(errors.prefix, native.new("NOT_FOUND", "x", "f.lua:1"), "model: ")
check(tostring(raised) == "NOT_FOUND: model: x", "prefix gives ", tostring(raised))
check(not pcall(errors.raise, "OK", "x"), "raise takes OK")

-- A secret never occurs in a message, even if its value or the name of its key is wrong.
local config = require "moonring.config"
local hidden = "hf_HIDDEN"
for _, word in ipairs { "hf_hub_token=[%s]", "hf_hub_token={a: %s}", "--hf_hub_token={a: %s",
  "hf_hub_token.a=%s", "hf-hub-token=[%s]", "hf_hub_tokn=%s", "hub_tokn=%s", "my_api_key=%s",
  "hf_hub_token:%s", "swanlab_api_key=[%s]" } do
  local ok, said = pcall(config.load, nil, { (word:format(hidden)) })
  check(not ok and errors.code(said) == "INVALID_ARGUMENT", word, ": ", tostring(said))
  check(not tostring(said):find(hidden, 1, true), word, " is shown: ", tostring(said))
end
local _, said = pcall(config.load, nil, { "learning_rate=fast" })
check(errors.words(said):find("got 'fast'", 1, true), "what is no secret is not shown: ",
  tostring(said))

if #failures > 0 then error("\n" .. table.concat(failures, "\n"), 0) end
