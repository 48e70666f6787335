-- Reading errors: errors_test.lua. Raises one error that lists all failures.
local errors = require "moonring.base.errors"
local comm = require "moonring.native.comm"

local failures = {}
local function check(condition, ...)
  if not condition then failures[#failures + 1] = table.concat({ ... }) end
end

for _, case in ipairs {
  { "ABORTED: a: b", "ABORTED", "a: b" },
  { "run.lua:12: INTERNAL: x", "INTERNAL", "x" },
  { "run.lua:12: comm.mesh: INVALID_ARGUMENT: sp=3", "INVALID_ARGUMENT", "sp=3" },
  { "my runs/run.lua:12: Mesh:sum: DEADLINE_EXCEEDED: late", "DEADLINE_EXCEEDED", "late" },
  { '[string "a: b"]:1: NOT_FOUND: f', "NOT_FOUND", "f" },
  { "INTERNAL: the peer said: ABORTED: x", "INTERNAL", "the peer said: ABORTED: x" }, -- first code
  { "some words: ABORTED: x", nil, "some words: ABORTED: x" }, -- a quoted code does not count
  { "run.lua:3: attempt to index a nil value", nil, "run.lua:3: attempt to index a nil value" },
  { "NAN: 3", nil, "NAN: 3" }, -- no status code
  { "", nil, "" },
} do
  local why, code, words = case[1], case[2], case[3]
  check(errors.code(why) == code, "'", why, "' has the code ", tostring(errors.code(why)))
  check(errors.words(why) == words, "'", why, "' has the words '", errors.words(why), "'")
  check(not code or errors.is(why, code), "'", why, "' is not ", tostring(code))
  check(not errors.is(why, "UNAVAILABLE"), "'", why, "' is UNAVAILABLE")
end

-- The text of an error that a bound function returns, with the position in the script.
local done, why = pcall(comm.mesh, { sequence_parallel_size = 3 })
check(not done and errors.code(why) == "INVALID_ARGUMENT", "comm.mesh says ", tostring(why))
check(not errors.words(why):find "INVALID_ARGUMENT", "its words are ", errors.words(why))
check(tostring(why):find(errors.words(why), 1, true) > 20, "it has no place: ", tostring(why))

-- A raised error can be parsed again.
local _, raised = pcall(errors.raise, "DATA_LOSS", "row ", 3, ": x")
check(raised == "DATA_LOSS: row 3: x", "raise gives ", tostring(raised))
_, raised = pcall(errors.fail, "key: ", 1)
check(raised == "INVALID_ARGUMENT: key: 1", "fail gives ", tostring(raised))
_, raised = pcall(errors.prefix, "f.lua:1: NOT_FOUND: x", "model: ")
check(raised == "NOT_FOUND: model: x", "prefix gives ", tostring(raised))
check(not pcall(errors.raise, "OK", "x"), "raise takes OK")

-- A secret never occurs in a message, even if its value or the name of its key is wrong.
local config = require "moonring.config"
local hidden = "hf_HIDDEN"
for _, word in ipairs { "hf_hub_token=[%s]", "hf_hub_token={a: %s}", "--hf_hub_token={a: %s",
  "hf_hub_token.a=%s", "hf-hub-token=%s", "hf_hub_tokn=%s", "hub_tokn=%s", "my_api_key=%s",
  "hf_hub_token:%s", "swanlab_api_key=[%s]" } do
  local ok, said = pcall(config.load, nil, { (word:format(hidden)) })
  check(not ok and errors.code(said) == "INVALID_ARGUMENT", word, ": ", tostring(said))
  check(not tostring(said):find(hidden, 1, true), word, " is shown: ", tostring(said))
end
local _, said = pcall(config.load, nil, { "learning_rate=fast" })
check(errors.words(said):find("got 'fast'", 1, true), "what is no secret is not shown: ", said)

if #failures > 0 then error("\n" .. table.concat(failures, "\n"), 0) end
