-- Rewards: rewards_test.lua SECTION SCRATCH_FOLDER MODEL_FOLDER. Raises one error that lists all
-- failures.
local section, scratch, model_folder = arg[1], arg[2], arg[3]
local moonring = require "moonring"
local errors = require "moonring.base.errors"
local native = require "moonring.native.rewards"
local specs = require "moonring.choices.reward_specs"
local rewards, system = moonring.rewards, moonring.system

local failures = {}
local function check(condition, ...)
  if not condition then failures[#failures + 1] = table.concat({ ... }) end
end

local function told(value) return system.json_encode { value } end

local function equal(what, got, wanted)
  check(told(got) == told(wanted), what, ": expected ", told(wanted), ", got ", told(got))
end

local function write(name, text)
  local path = scratch .. "/" .. name
  system.write(path, text)
  return path
end

local PROMPTS = { "What is 2 + 2?", "What is 3 + 4?", "Say\nanything at all, as long as you keep "
  .. "to one line of text" }
local function batch(completions)
  local n = #completions
  local function first(list) return { unpack(list, 1, n) } end
  return { prompts = first(PROMPTS), completions = completions, prompt_ids = first { { 1, 2 },
    { 3 }, { 4, 5, 6 } }, completion_ids = first { { 7 }, { 8, 9 }, { 1, 2, 3, 4, 5 } },
    stopped = first { true, false, true }, rows = first { 16, 3, 8 },
    columns = { answer = { [1] = "4", [2] = 7 }, level = first { 1, 2, 3 } } }
end
local THREE = batch { "4", " 7.0\n", "{}" }

local function values_of(given, how, b)
  local opened = rewards.open(given, how)
  local scores, why = opened:score(b or THREE)
  opened:close()
  if not scores then return tostring(why) end
  local values = {}
  for i, each in ipairs(scores) do
    values[i] = {}
    for row = 1, #(b or THREE).completions do
      values[i][row] = each.values[row] == nil and "nothing" or each.values[row]
    end
  end
  return values
end

-- Returns the text without the scratch folder, which Lua may abbreviate, and without the number in
-- the file's name.
local function plain(text)
  local escaped = scratch:gsub("%p", "%%%0")
  return (text:gsub(escaped .. "/", ""):gsub("%.%.%.[^%s:]*/", "")
    :gsub("failing_%d+", "failing"))
end

-- Returns the error of a reward file with this text.
local files = 0
local function failure_of(text, how, b)
  files = files + 1
  local why = values_of(write(("failing_%d.lua"):format(files), text), how, b)
  return type(why) == "string" and plain(why) or told(why)
end
local function refusal_of(given, how)
  local ok, why = pcall(rewards.open, given, how)
  return ok and "(opened)" or plain(tostring(why))
end
local function file_refusal(text, how)
  files = files + 1
  return refusal_of(write(("failing_%d.lua"):format(files), text), how)
end

local sections = {}

-- The values that a reward file may return, and the arguments of its functions.
function sections.files()
  local list = write("list.lua", [[
    return {
      function(batch)
        local values = {}
        for i, text in ipairs(batch.completions) do values[i] = #text end
        return values
      end,
      { name = "level", each = function(row) return row.level * 10 + row.columns.level end },
      answered = { each = function(row) return row.answer and 1 or nil end },
      all = function(b)
        assert(b.prompts[1] == "What is 2 + 2?" and b.prompt_ids[3][2] == 5)
        assert(b.completion_ids[2][2] == 9 and b.stopped[2] == false and b.rows[1] == 16)
        assert(b.columns.answer[2] == 7 and b.answer[3] == nil and b.messages == nil)
        return { 1, nil, 3 }
      end,
    }]])
  local opened = rewards.open(list)
  equal("names", opened:names(), { "list_1", "level", "all", "answered" })
  opened:close()
  equal("values", values_of(list), { { 1, 5, 2 }, { 11, 22, 33 }, { 1, "nothing", 3 },
    { 1, 1, "nothing" } })
  local one = write("one.lua", "return function(b) return { 1, false, 0, n = 3 } end")
  equal("a function", values_of(one), { { 1, "nothing", 0 } })
  equal("its name", rewards.open(one):names(), { "one" })
  local each = write("per_row.lua", "return { each = function(row) return #row.prompt end }")
  equal("a function of rows", values_of(each), { { 14, 14, #PROMPTS[3] } })
  -- A row has every field, and messages. A column with the name of a field is only in `columns`.
  write("seen.lua", [[
    return { each = function(row)
      assert(row.messages == false or row.messages[1].content == "hi")
      assert(row.prompt == "P" and row.columns.prompt == "other" and row.row == 5)
      assert(row.completion == "\255 C" and row.completion_ids[1] == 2 and row.prompt_ids[1] == 1)
      return row.stopped and 1 or 0
    end }]])
  equal("a row's fields", values_of(scratch .. "/seen.lua", nil, { prompts = { "P", "P" },
    messages = { { { role = "user", content = "hi" } }, false },
    completions = { "\255 C", "\255 C" }, prompt_ids = { { 1 }, { 1 } },
    completion_ids = { { 2 }, { 2 } }, stopped = { true, false }, rows = { 5, 5 },
    columns = { prompt = { "other", "other" } } }), { { 1, 0 } })
  -- Folders: relative paths start from `folder`; `require` loads files next to the reward file;
  -- json, io and os are available.
  system.make_folder(scratch .. "/parts")
  write("parts/digits.lua", "calls = (calls or 0) + 1 return { of = function(s) return calls + "
    .. "select(2, s:gsub('%d', '')) end }")
  write("parts/main.lua", [[
    local digits = require "digits"
    assert(digits == require "digits" and calls == 1)
    assert(json.decode('{"a": [1, null]}').a[2] == json.null and json.encode { 1 } == "[1]")
    assert(io.open and os.getenv and not jit and not ffi and not debug and not package)
    for _, name in ipairs { "../one", "moonring", "ffi", "moonring.native.system", "a..b" } do
      assert(not pcall(require, name), name)
    end
    return function(batch) return { digits.of(batch.completions[1]), 0, 0 } end]])
  equal("neighbours", values_of("main.lua", { folder = scratch .. "/parts" }), { { 2, 0, 0 } })
  -- Each file has its own Lua state, so two files share nothing; each function gets its own copy of
  -- the batch.
  write("mine.lua", "shared = 1 return { a = function(b) b.completions[1] = 'x' b.level[1] = 9 "
    .. "return { 1, 1, 1 } end, b = { each = function(row) return row.level end } }")
  write("other.lua", "assert(shared == nil) return { c = function(b) return { b.level[1], 0, 0 } "
    .. "end }")
  equal("apart", values_of { scratch .. "/mine.lua", scratch .. "/other.lua" },
    { { 1, 1, 1 }, { 1, 2, 3 }, { 1, 0, 0 } })
  -- A reward keeps its variables between calls; its output goes to `say`.
  local lines = {}
  local counting = rewards.open(write("counting.lua", "local calls = 0 print 'read' "
    .. "return function(b) calls = calls + 1 print('call', calls) io.write 'a\\nb\\n' "
    .. "return { calls, 0, 0 } end"), { say = function(line) lines[#lines + 1] = line end })
  counting:score(THREE)
  equal("remembers", counting:score(THREE)[1].values[1], 2)
  equal("says", lines, { scratch .. "/counting.lua: read", scratch .. "/counting.lua: call\t1",
    scratch .. "/counting.lua: a", scratch .. "/counting.lua: b",
    scratch .. "/counting.lua: call\t2", scratch .. "/counting.lua: a",
    scratch .. "/counting.lua: b" })
  lines = {}
  values_of(write("chatty.lua", "return function(b) for i = 1, 5000 do print(i) end "
    .. "return { 0, 0, 0 } end"), { say = function(line) lines[#lines + 1] = line end })
  equal("of very much the first", { #lines, lines[1000], lines[1001] }, { 1001,
    scratch .. "/chatty.lua: 1000", scratch .. "/chatty.lua: (4000 lines more)" })
end

-- Each failure has a message that names the position; the run continues after each of them.
function sections.failures()
  local ROW = "row 3 of the data set ('What is 3 + 4?'), completion 2 of the batch: "
  local function fails(what, text, wanted, how)
    equal(what, failure_of(text, how), wanted)
  end
  fails("raises", "local function inner(b)\n  return b.nothing.there\nend\nreturn { right = "
    .. "function(b) local x = inner(b) return x end }",
    "ABORTED: reward 'right' (failing.lua): failing.lua:2: attempt to index field 'nothing' (a nil "
      .. "value)\n  failing.lua:2: in function 'inner'\n  failing.lua:4: in the function of line 4")
  fails("raises at a row", "return { each = function(row)\n  if row.level == 2 then error 'bad' end"
    .. "\n  return 1 end }", "ABORTED: reward 'failing' (failing.lua): " .. ROW
    .. "failing.lua:2: bad")
  fails("raises a table", "return { x = function() error { message = 'no' } end }",
    "ABORTED: reward 'x' (failing.lua): no\n  failing.lua:1: in the function of line 1")
  fails("NaN", "return { x = function() return { 1, 0/0, 1 } end }",
    "ABORTED: reward 'x' (failing.lua): " .. ROW .. "got nan, expected a finite number, or nil "
      .. "where there is nothing to say")
  fails("infinity at a row", "return { x = { each = function(row) return -row.level / 0 end } }",
    "ABORTED: reward 'x' (failing.lua): row 16 of the data set ('What is 2 + 2?'), completion 1 of "
      .. "the batch: got -inf, expected a finite number, or nil where there is nothing to say")
  fails("no number", "return { x = function() return { 1, '1', 1 } end }",
    "ABORTED: reward 'x' (failing.lua): " .. ROW .. "got '1' (a string), expected a finite number, "
      .. "or nil where there is nothing to say")
  fails("true", "return { x = { each = function() return true end } }",
    "ABORTED: reward 'x' (failing.lua): row 16 of the data set ('What is 2 + 2?'), completion 1 of "
      .. "the batch: got true, expected a finite number, or nil where there is nothing to say")
  fails("a long prompt", "return { x = function() return { 1, 1, {} } end }",
    "ABORTED: reward 'x' (failing.lua): row 8 of the data set ('Say anything at all, as long as "
      .. "you keep to one line of text'), completion 3 of the batch: got a table, expected a "
      .. "finite number, or nil where there is nothing to say")
  fails("too few", "return { x = function() return { 1, 1 } end }",
    "ABORTED: reward 'x' (failing.lua): got 2 values for 3 completions; expected one each, false "
      .. "where there is nothing to say")
  fails("too many", "return { x = function() return { 1, 1, 1, 1, n = 3 } end }",
    "ABORTED: reward 'x' (failing.lua): got 4 values for 3 completions; expected one each, false "
      .. "where there is nothing to say")
  fails("none", "return { x = function() return {} end }",
    "ABORTED: reward 'x' (failing.lua): got 0 values for 3 completions; expected one each, false "
      .. "where there is nothing to say")
  fails("a number", "return { x = function() return 1 end }",
    "ABORTED: reward 'x' (failing.lua): got 1, expected a list of 3 numbers, one a completion")
  fails("nothing", "return { x = function() end }",
    "ABORTED: reward 'x' (failing.lua): got nil, expected a list of 3 numbers, one a completion")
  fails("a key", "return { x = function() return { 1, 1, 1, mean = 1 } end }",
    "ABORTED: reward 'x' (failing.lua): got a table with the key 'mean' (a string), expected a "
      .. "list of 3 numbers, one a completion")
  fails("a metatable is not asked", "return { x = function() return setmetatable({}, { __index = "
    .. "function() return 1 end, __len = function() return 3 end }) end }",
    "ABORTED: reward 'x' (failing.lua): got 0 values for 3 completions; expected one each, false "
      .. "where there is nothing to say")
  local function refused(what, got, wanted) equal(what, got, "INVALID_ARGUMENT: " .. wanted) end
  refused("no Lua", file_refusal "return {", "reward_funcs: failing.lua:1: unexpected symbol near "
    .. "'<eof>'")
  refused("raises as it is read", file_refusal "\nerror 'no data'",
    "reward_funcs: failing.lua:2: no data")
  refused("returns nothing", file_refusal "local x = 1",
    "reward_funcs: failing.lua: expected a function or a table of functions, got nil")
  refused("returns an empty table", file_refusal "return {}",
    "reward_funcs: failing.lua: expected a function or a table of functions, got an empty table")
  refused("a number among them", file_refusal "return { good = print, bad = 3 }",
    "reward_funcs: failing.lua: bad: expected a function, or { each = function(row) .. end }, "
      .. "got 3")
  refused("an entry's key", file_refusal "return { bad = { each = print, weight = 3 } }",
    "reward_funcs: failing.lua: bad: expected name, and each or batch, a function; got weight = 3")
  refused("both", file_refusal "return { bad = { each = print, batch = print } }",
    "reward_funcs: failing.lua: bad: expected one of each and batch, a function")
  refused("a hole", file_refusal "return { [1] = print, [3] = print }",
    "reward_funcs: failing.lua: expected functions in a list without holes, or by name, got the "
      .. "key 3")
  equal("no file", refusal_of "missing.lua", "NOT_FOUND: reward_funcs: cannot read missing.lua")
  -- An invalid batch is an error of the caller.
  local opened = rewards.open "json"
  local ok, why = pcall(opened.score, opened, { prompts = { "a" }, completions = { "b", "c" } })
  check(not ok and why:find("prompts: 1 items for 2 completions", 1, true), "a batch: ",
    tostring(why))
  -- A failure on another rank is raised on this rank too, with the number of the other rank.
  local mesh = { size = function() return 2 end,
    gather = function() return { "", errors.encode(errors.new("ABORTED", "x")) } end }
  ok, why = pcall(rewards.raise_together, mesh, nil)
  equal("another rank's", { ok, tostring(why) }, { false, "ABORTED: rank 1: x" })
  check(pcall(rewards.raise_together, { gather = function() return { "", "" } end }), "no failure")
end

-- Limits of time and memory: exceeding one ends the call; the Lua state and the run continue.
function sections.limits()
  local quick = { timeout = 0.3 }
  local function took(f)
    local began = system.clock()
    local result = f()
    return result, system.clock() - began
  end
  local LATE = "DEADLINE_EXCEEDED: reward 'x' (failing.lua): it took longer than reward_timeout: "
    .. "0.3 seconds\n  failing.lua:%d: in the function of line 1"
  -- With the JIT, each of these would be compiled, and compiled code does not call the hook that
  -- checks the time.
  for what, body in pairs {
    ["an empty loop"] = "while true do end",
    ["a counting loop"] = "local s = 0 for i = 1, 1e15 do s = s + i % 7 end return { s }",
    ["an error that is caught"] = "while true do pcall(function() while true do end end) end",
    ["in a coroutine"] = "coroutine.wrap(function() while true do end end)()",
    ["a pattern"] = "return { (('a'):rep(60) .. 'b'):find('(.-)(.-)(.-)(.-)(.-)(.-)(.-)(.-)c') }",
    ["calls"] = "local function f(n) return f(n + 1) end f(1)",
    ["a sort that never agrees"] = "local t = {} for i = 1, 3e6 do t[i] = i end table.sort(t, "
      .. "function(a, b) local x = 0 for i = 1, 1e9 do x = x + 1 end return a < b end)",
  } do
    local why, seconds = took(function()
      return failure_of("return { x = function() " .. body .. " end }", quick)
    end)
    check(why:find("DEADLINE_EXCEEDED: reward 'x' (failing.lua): it took longer than "
      .. "reward_timeout: 0.3 seconds", 1, true) == 1, what, ": ", why)
    check(seconds > 0.25 and seconds < 60, what, ": took ", seconds, " seconds")
  end
  equal("where it was", failure_of("return { x = function()\n\n while true do end end }", quick),
    LATE:format(3))
  equal("the row", failure_of("return { x = { each = function(row) while row.level == 2 do end "
    .. "return 0 end } }", quick), "DEADLINE_EXCEEDED: reward 'x' (failing.lua): row 3 of the data "
    .. "set ('What is 3 + 4?'), completion 2 of the batch: it took longer than reward_timeout: 0.3 "
    .. "seconds\n  failing.lua:1: in the function of line 1")
  local reading = file_refusal("while true do end", quick)
  check(reading:find("INVALID_ARGUMENT: reward_funcs: failing.lua: it took longer than "
    .. "reward_timeout: 0.3 seconds", 1, true) == 1, "as it is read: ", reading)
  -- Memory limits, and the release of charged memory.
  local small = { memory_mib = 32, timeout = 60 }
  for what, body in pairs {
    ["tables"] = "local t = {} while true do t = { t } end",
    ["strings"] = "local s = 'x' while true do s = s .. s end",
    ["one string"] = "return { ('x'):rep(2 ^ 26) }",
    ["caught again and again"] = "local t = {} local function more() for i = 1, 1e5 do t[#t + 1] = "
      .. "{} end end while pcall(more) do end error 'not enough'",
  } do
    local why = failure_of("return { x = function() " .. body .. " end }", small)
    local is_ours = what:find "caught" and why:find "not enough"
    check(is_ours or why:find("RESOURCE_EXHAUSTED: reward 'x' (failing.lua): ", 1, true) == 1
      and why:find("reward_memory_mib", 1, true), what, ": ", why)
  end
  local opened = rewards.open(write("greedy.lua", [[
    return function(batch)
      if batch.completions[1] == "loop" then while true do end end
      if batch.completions[1] == "eat" then local t = {} while true do t = { t } end end
      return { 5 }
    end]]), { memory_mib = 32, timeout = 0.5 })
  local function score(text) return opened:score(batch { text }) end
  for _ = 1, 3 do
    for _, text in ipairs { "eat", "loop" } do
      local scores, why = score(text)
      check(not scores and why, text, " did not fail")
      equal("after " .. text, score("well")[1].values[1], 5)
    end
  end
  opened:close()
  -- At the same time, the host may use as much memory as it needs.
  check(#("y"):rep(2 ^ 27) == 2 ^ 27, "the host's own memory")
  -- The JIT is off in the reward's Lua state.
  local state = native.own_state { module = "moonring.rewards.inside", memory = 2 ^ 26 }
  equal("jit.status()", { state:call(10, "compiles") }, { true, false })
  equal("the host's own", (require "jit".status()), true)
  state:close()
  local little = refusal_of(write("fine.lua", "return { x = print }"), { memory_mib = 0.2 })
  check(little:find("INVALID_ARGUMENT: reward_funcs: fine.lua: no room for a Lua state in "
    .. "reward_memory_mib: 0.2: ", 1, true) == 1, "too little memory: ", little)
end

-- Values are passed to another Lua state and back unchanged.
function sections.values()
  local state = native.own_state { module = "moonring.rewards.inside", memory = 2 ^ 28 }
  local path = write("echo.lua", "")
  local ok, names = state:call(10, "load", { [[
    return { echo = { batch = function(b)
      assert(b.list[1] == 1 and b.list[3] == "c" and b.list[2] == nil and b.list[7] == false)
      assert(b.bytes == "\0\255" and b.null == json.null and b.nan ~= b.nan)
      assert(b[true] == "yes" and b[-1] == "minus" and b[1.5] == "half" and #b.numbers == 100000)
      assert(b.numbers[1] == 0.5 and b.numbers[100000] == 99999.5 and next(b.empty) == nil)
      return { 1 }
    end } }]], path, scratch })
  equal("load", { ok, names }, { true, { "echo" } })
  local numbers = {}
  for i = 1, 100000 do numbers[i] = i - 0.5 end
  local value = { list = { [1] = 1, [3] = "c", [7] = false }, bytes = "\0\255",
    null = moonring.null, nan = 0 / 0, [true] = "yes", [-1] = "minus", [1.5] = "half",
    numbers = numbers, empty = {} }
  ok, names = state:call(10, "call", { 1, value, 1 })
  equal("all of them", { ok, names }, { true, { 1 } })
  for what, bad in pairs { ["a function"] = print, ["a handle"] = state } do
    local done, why = pcall(state.call, state, 10, "call", { 1, { x = bad }, 1 })
    check(not done and why:find "cannot be handed to another Lua state", what, ": ", tostring(why))
  end
  local round = {}
  round.round = round
  local done, why = pcall(state.call, state, 10, "call", { 1, round, 1 })
  check(not done and why:find "contains itself", "a circle: ", tostring(why))
  state:close()
end

-- Built-in rewards.
function sections.built_in()
  local function built(what, given, completions, wanted, b)
    b = b or batch(completions)
    equal(what, values_of(given, nil, b), { wanted })
  end
  local THINK = "^<think>.*</think>\\s*\\S"
  built("format", { format = THINK }, { "<think>a\nb</think>\n4", "x <think></think> 4",
    "<think>a</think>" }, { 1, 0, 0 })
  built("format, as a word", "format:^\\d+$", { "12", "12\n", "a12" }, { 1, 0, 0 })
  built("format of Unicode", { format = "^\\w+$" }, { "äöü", "\255", "a b" }, { 1, 0, 0 })
  built("exact", { exact = "answer" }, { " 4\n", "7.0", "x" }, { 1, 0, "nothing" })
  built("exact, numbers", { exact = { column = "answer", numbers = true } },
    { "4.00", "7e0", "x" }, { 1, 1, "nothing" })
  built("exact, of a pattern", { exact = { column = "answer", pattern = "####\\s*([\\d,.]+)",
    numbers = true } }, { "2 + 2 #### 4.", "7", "x" }, { 1, 0, "nothing" })
  built("exact, thousands", { exact = { column = "answer", numbers = true } }, nil, { 1, 0, 0 },
    { prompts = { "", "", "" }, completions = { "1,234.5", "0x10", "nan" },
      columns = { answer = { "1234.50", 16, "nan?" } } })
  built("length, most", { length = { most = 1, slope = 2 } }, { "a", "b", "c" }, { 0, -0.5, -1 })
  built("length, alone", "length:2", { "a", "b", "c" }, { 0, 0, -1 })
  built("length, target", { length = { target = 2 } }, { "a", "b", "c" }, { -0.5, 0, -1 })
  built("json", "json", { "[1, 2]", "{\"a\":", " {} " }, { 1, 0, 1 })
  built("json, keys", { json = { "a", "b" } }, { '{"a": 1, "b": null}', '{"a": 1}', "[1, 2]" },
    { 1, 0, 0 })
  built("json, of a pattern", { json = { pattern = "```json\\n(.*)\\n```" } },
    { "```json\n{}\n```", "{}", "```json\n{\n```" }, { 1, 0, 0 })
  equal("names", rewards.open({ { format = "a" }, { format = "b" }, { name = "last",
    format = "c" }, "json" }):names(), { "format", "format_2", "last", "json" })
  local ROW = "row 16 of the data set ('What is 2 + 2?'), completion 1 of the batch: "
  equal("no such column", values_of { exact = "anser" }, "ABORTED: reward 'exact': the data has no "
    .. "column 'anser' (did you mean 'answer'?); it has answer, level")
  equal("a column of tables", values_of({ exact = "answer" }, nil, { prompts = { "a" },
    completions = { "b" }, columns = { answer = { { 1 } } } }), "ABORTED: reward 'exact': "
    .. "completion 1 of the batch ('a'): column 'answer': got a table, expected a text or a number")
  local slow = values_of({ format = "^(a+)+$" }, nil, batch { ("a"):rep(40) .. "b" })
  check(slow:find("RESOURCE_EXHAUSTED: reward 'format': " .. ROW
    .. "pattern '^(a+)+$': the search gave up", 1, true) == 1, "a pattern of steps: ", told(slow))
  local function refused(given, wanted)
    equal(told(given), refusal_of(given), "INVALID_ARGUMENT: " .. wanted)
  end
  local KINDS = "expected the path of a .lua or .py file, or one of command, exact, file, format, "
    .. "json, length, model, python, url"
  refused({ { formt = "a" } }, "reward_funcs[1]: unknown reward 'formt' (did you mean 'format'?); "
    .. KINDS)
  refused("rewards", "reward_funcs: unknown reward 'rewards'; " .. KINDS)
  refused({ "json", { format = "(" } }, "reward_funcs[2]: pattern '(': missing closing "
    .. "parenthesis, at character 2")
  refused({ { format = "a", json = true } }, "reward_funcs[1]: expected one reward, got format and "
    .. "json: each is an item of the list")
  refused({ name = "x" }, "reward_funcs: expected one of command, exact, file, format, json, "
    .. "length, model, python, url")
  refused({ length = { most = 1, target = 2 } }, "reward_funcs: length: expected one of most and "
    .. "target")
  refused({ length = "long" }, "reward_funcs: length: most: expected a whole number of 1 or more, "
    .. "got 'long'")
  refused({ exact = { pattern = "a" } }, "reward_funcs: exact: column is missing: expected a text")
  refused({ exact = { column = "a", number = true } }, "reward_funcs: exact: unknown option "
    .. "'number' (did you mean 'numbers'?); known: column, numbers, pattern")
  refused({}, "reward_funcs: expected the path of a .lua or .py file, a reward or a list of them, "
    .. "got []")
  refused({ { 1 } }, "reward_funcs[1]: expected the path of a .lua or .py file, or a reward's kind "
    .. "and its argument, got [1]")
  refused({ { file = "a.lua", name = "b" } }, "reward_funcs[1]: a file's functions have names of "
    .. "their own")
  refused({ { format = "a", name = "x" }, { format = "b", name = "x" } }, "reward_funcs: two "
    .. "rewards are named 'x'")
  -- The identity of a reward, which is stored in checkpoints, depends on the file's contents.
  local path = write("marked.lua", "return print")
  local before = specs.mark { path, "json" }
  write("marked.lua", "return  print")
  check(before ~= specs.mark { path, "json" }, "a mark without the file's contents")
  equal("a mark", specs.mark { "json" }, '[{"kind":"json","where":"reward_funcs[1]"}]')
end

-- Rewards computed by programs.
function sections.command()
  local said = {}
  local function how(seconds)
    said = {}
    return { timeout = seconds or 5, say = function(line) said[#said + 1] = line end }
  end
  local function shell(text) return { "sh", "-c", text } end
  local ANSWER = "while read -r line; do printf '%s' \"$line\" > " .. scratch .. "/asked; "
    .. "echo '[1, 0.5, null]'; done"
  equal("answers", values_of({ command = shell(ANSWER) }, how()),
    { { 1, 0.5, "nothing" } })
  local asked = system.json_decode(system.read(scratch .. "/asked"))
  equal("is asked", asked, { prompts = THREE.prompts, completions = THREE.completions,
    stopped = THREE.stopped, rows = THREE.rows, columns = { answer = { "4", 7, moonring.null },
    level = { 1, 2, 3 } } })
  values_of({ command = { command = shell(ANSWER), ids = true } }, how())
  equal("ids", system.json_decode(system.read(scratch .. "/asked")).completion_ids,
    THREE.completion_ids)
  -- One process serves all calls, and its stderr goes to the log.
  local counter = rewards.open({ { name = "count", command = shell [[
    n=0; echo ready >&2
    while read -r line; do n=$((n+1)); echo "asked $n" >&2; echo "[$n, $n, $n]"; done]] } }, how())
  counter:score(THREE)
  equal("one process", counter:score(THREE)[1].values[1], 2)
  equal("its stderr", said, { "count: ready", "count: asked 1", "count: asked 2" })
  counter:close()
  -- Requests and answers may be longer than a pipe's buffer of 64 KiB.
  local long = { prompts = { ("p"):rep(2 ^ 20) }, completions = { ("c"):rep(2 ^ 20) } }
  equal("a long line", values_of({ command = shell("read -r line; head -c 3000000 /dev/zero | "
    .. "tr '\\0' ' '; echo \"[${#line}]\"") }, how(20), long), { { 2 ^ 21
    + #'{"completions":[""],"prompts":[""]}' } })
  -- The program inherits no file of the host: only its own three are open, and the one with which
  -- the shell lists them.
  local leaked = io.open "/dev/null"
  equal("open files", values_of({ command = shell("read -r line; set -- /proc/self/fd/*; "
    .. "echo \"[$#]\"") }, how(), batch { "a" }), { { 4 } })
  leaked:close()
  -- A program that ends is started again once.
  local once = scratch .. "/once"
  equal("dies once", values_of({ command = shell("read -r line; if [ -e " .. once .. " ]; then "
    .. "echo '[1, 1, 1]'; else echo died > " .. once .. "; echo 'no luck' >&2; exit 3; fi") },
    how()),
    { { 1, 1, 1 } })
  check(#said == 2 and said[1] == "command: no luck" and said[2]:find "it ended with exit code 3, "
    and said[2]:find "; try 2 of 3$", "is said: ", told(said))
  local place = "reward 'command' (sh -c "
  local function fails(what, text, wanted, options, seconds)
    local given = { command = shell(text) }
    for name, value in pairs(options or {}) do given[name] = value end
    local began = system.clock()
    local why = values_of({ command = given }, how(seconds))
    check(type(why) == "string" and why:find(wanted:gsub("COMMAND", place .. text .. ")"), 1, true)
      == 1, what, ": expected ", wanted, ", got ", told(why))
    return system.clock() - began
  end
  fails("dies", "read -r line; echo oops >&2; exit 7", "UNAVAILABLE: COMMAND: it ended with exit "
    .. "code 7, and said: oops (the last of 2 tries)", { retries = 1 })
  fails("dies, and says much", "read -r line; seq 10 >&2; sleep 0.1; exit 7",
    "UNAVAILABLE: COMMAND: it ended with exit code 7, and said: 8 | 9 | 10", { retries = 0 })
  fails("is killed", "read -r line; kill -9 $$", "UNAVAILABLE: COMMAND: it was ended by signal 9",
    { retries = 0 })
  fails("never reads", "exit 0", "UNAVAILABLE: COMMAND: it ended with exit code 0",
    { retries = 0 })
  local seconds = fails("hangs", "read -r line; sleep 600", "DEADLINE_EXCEEDED: COMMAND: no answer "
    .. "within 0.3 seconds (the last of 3 tries)", nil, 0.3)
  check(seconds > 0.8 and seconds < 60, "hangs: took ", seconds)
  fails("its own deadline", "read -r line; sleep 600", "DEADLINE_EXCEEDED: COMMAND: no answer "
    .. "within 0.2 seconds", { timeout = 0.2, retries = 0 })
  fails("garbage", "read -r line; echo hello", "ABORTED: COMMAND: the answer:1:1: not valid JSON: ")
  fails("a word", "read -r line; echo '\"x\"'", "ABORTED: COMMAND: got '\"x\"', expected a list of "
    .. "3 numbers")
  fails("too few", "read -r line; echo '[1]'", "ABORTED: COMMAND: got 1 values for 3 completions; "
    .. "expected one each, null where there is nothing to say")
  fails("a text among them", "read -r line; echo '[1, \"2\", 3]'", "ABORTED: COMMAND: row 3 of the "
    .. "data set ('What is 3 + 4?'), completion 2 of the batch: got \"2\", expected a number, or "
    .. "null where there is nothing to say")
  fails("NaN", "read -r line; echo '[1, NaN, 3]'", "ABORTED: COMMAND: the answer:1:5: not valid "
    .. "JSON: ")
  fails("says so", "read -r line; echo '{\"error\": \"no such model\"}'", "ABORTED: COMMAND: it "
    .. "says: no such model")
  fails("two lines", "read -r line; printf '[1,1,1]\\n[2]\\n'", "INVALID_ARGUMENT: COMMAND: it "
    .. "answered more than one line: after '[1,1,1]' came '[2]")
  -- A program that writes a line before it gets a request, or an invalid line as its answer.
  local banner = values_of({ command = shell "echo loading; sleep 600" }, how())
  check(banner:find("it wrote an unexpected line to its stdout: 'loading'", 1, true)
    or banner:find("not valid JSON: .*: got 'loading', expected a list of 3 numbers"), "a banner: ",
    told(banner))
  equal("no such program", refusal_of { command = { "/no/such/program" } },
    "NOT_FOUND: reward_funcs: cannot start '/no/such/program': No such file or directory")
  -- A program that hangs, and the processes that it has started, are killed when the rewards are
  -- closed.
  local hanging = rewards.open({ command = shell("echo $$ > " .. scratch .. "/pid; sleep 600 & "
    .. "while true; do sleep 600; done") }, how())
  repeat native.sleep(0.05) until system.exists(scratch .. "/pid")
    and system.read(scratch .. "/pid"):find "\n"
  local pid = system.read(scratch .. "/pid"):match "%d+"
  check(system.exists("/proc/" .. pid), "it does not run")
  hanging:close()
  check(not system.exists("/proc/" .. pid), "it still runs")
end

-- The first three functions are those of TRL's documentation, in shape and arguments.
local PYTHON = [[
import re
from beside import twice
print("loading")
def reward_func(completion_ids, **kwargs):
    return [len(ids) for ids in completion_ids]
def reward_len(completions, **kwargs):
    return [float(len(c if isinstance(c, str) else c[0]["content"])) for c in completions]
def correctness(completions, answer, **kwargs):
    texts = [c[0]["content"] if isinstance(c, list) else c for c in completions]
    return [None if a is None else float(str(a) == t) for a, t in zip(answer, texts)]
async def later(prompts, completions, log_extra=None, **kwargs):
    assert set(kwargs) == {"completion_ids", "answer", "level"}, kwargs
    return [twice(p[-1]["content"] if isinstance(p, list) else p) for p in prompts]
def strict(completions):
    return [c == [{"role": "assistant", "content": "4"}] for c in completions]
def unrelated(text): return 1
def _private(completions, **kwargs): return []
]]

-- Rewards from functions of a Python file, called as TRL calls them.
function sections.python()
  local said = {}
  local how = { folder = scratch, timeout = 60, say = function(line) said[#said + 1] = line end }
  write("beside.py", "def twice(text): return 2 * len(text)\n")
  write("trl.py", PYTHON)
  local b = batch { "4", "seven", "{}" }
  b.messages = { { { role = "user", content = "hi" } }, false, false }
  b.columns.prompt = { [2] = "raw" }
  local opened = rewards.open("trl.py", how)
  equal("functions", opened:names(), { "reward_func", "reward_len", "correctness", "later",
    "strict" })
  opened:close()
  local named = values_of("trl.py:reward_func,reward_len,later,strict,correctness", how, b)
  equal("values", named, { { 1, 2, 5 }, { 1, 5, 2 }, { 4, 6, 2 * #PROMPTS[3] }, { 1, 0, 0 },
    { 1, 0, "nothing" } })
  equal("prints", said, { scratch .. "/trl.py: loading", scratch .. "/trl.py: loading" })
  write("bad.py", [[
def raises(completions, level, **kwargs): return [1.0 / (2 - n) for n in level]
def short(completions, **kwargs): return [1.0]
def text(completions, **kwargs): return [1, "a", 2]
def nan(completions, **kwargs): return [1, float("nan"), 2]
def one(completions, **kwargs): return 3
def wants(completions, trainer_state): return [1, 2, 3]
def ends(completions, **kwargs):
    import os
    os._exit(3)
]])
  local function fails(name, wanted)
    local code = name == "ends" and "UNAVAILABLE" or "ABORTED"
    equal(name, plain(values_of({ python = { path = "bad.py", functions = name, retries = 0 } },
      how, b)), ("%s: reward '%s' (bad.py): "):format(code, name) .. wanted)
  end
  local ROW = "row 3 of the data set ('What is 3 + 4?'), completion 2 of the batch: "
  fails("raises", ROW .. "it says: ZeroDivisionError: float division by zero (bad.py:1, in "
    .. "<listcomp>)")
  fails("short", "got 1 values for 3 completions; expected one each, null where there is nothing "
    .. "to say")
  fails("text", ROW .. 'got "a", expected a number, or null where there is nothing to say')
  fails("nan", ROW .. 'got "nan", expected a number, or null where there is nothing to say')
  fails("one", ROW:gsub("3 of the data", "16 of the data"):gsub("3 %+ 4", "2 + 2")
    :gsub("completion 2", "completion 1") .. "it says: TypeError: it returned 3, expected a list "
    .. "of 3 numbers")
  fails("ends", "it ended with exit code 3")
  local wants = values_of("bad.py:wants", how, b)
  check(wants:find("missing 1 required positional argument: 'trainer_state'", 1, true), wants)
  local function refused(given, wanted)
    local ok, why = pcall(rewards.open, given, how)
    equal(told(given), ok or plain(errors.words(why)), "reward_funcs: " .. wanted)
  end
  refused("trl.py:striict", "trl.py: no function 'striict' (did you mean 'strict'?); there are "
    .. "twice, reward_func, reward_len, correctness, later, strict, unrelated")
  write("none.py", "x = 3\n")
  refused("none.py", "none.py: no public function of the file has a parameter 'completions'; "
    .. "expected def NAME(completions, **kwargs), or FILE.py:NAME")
  write("broken.py", "\nimport no_such_module\n")
  refused("broken.py", "broken.py: ModuleNotFoundError: No module named 'no_such_module' "
    .. "(broken.py:2, in <module>)")
  refused("absent.py", "no file 'absent.py'")
  refused({ python = { path = "none.py", interpreter = "/no/python" } }, "cannot start "
    .. "'/no/python': No such file or directory; functions of a .py file need Python 3: "
    .. "MOONRING_PYTHON or the option interpreter is its path")
end

-- The prompt of a row in each form of data.
function sections.prompt_forms()
  local prompt_forms = require "moonring.rewards.prompt_forms"
  local function user(text) return { role = "user", content = text } end
  local forms = { { { messages = { user "a", { role = "assistant", content = "b" } } },
    { user "a" } }, { { conversations = { { from = "human", value = "a" }, { from = "gpt",
    value = "b" }, { from = "human", value = "c" } }, system = "s" }, { { role = "system",
    content = "s" }, user "a", { role = "assistant", content = "b" }, user "c" } },
    { { prompt = { user "p" }, messages = { user "m" } }, { user "p" } } }
  for i, form in ipairs(forms) do equal(i, prompt_forms.messages(form[1]), form[2]) end
  equal("a text", prompt_forms.messages { prompt = "p", n = 3 }, nil)
  equal("alpaca", prompt_forms.text { instruction = "a", input = "b" }, "a\nb")
end

-- The scores of a reward model equal those of its own forward, one document at a time.
function sections.reward_model()
  local folder, adapter = scratch .. "/rm", scratch .. "/rm_adapter"
  local base = moonring.model.load(moonring.model.open(model_folder), { precision = "fp64" })
  local head = base:value_head { seed = 3 }
  base:save(folder, { dtype = "fp64" })
  equal("no head", refusal_of { model = folder }, "INVALID_ARGUMENT: reward_funcs: model: rm has "
    .. "no value_head.safetensors; expected a model that stage rm has trained")
  head:save(folder)
  local frozen = moonring.model.load(moonring.model.open(folder), { precision = "fp64",
    frozen = true })
  local adapted = moonring.model.adapt(frozen, { rank = 2, seed = 5 })
  for i, parameter in ipairs(adapted:parameters():list()) do
    parameter:copy_(moonring.randn(parameter:shape(), { dtype = "fp64", seed = i }) * 0.1)
  end
  adapted:save(adapter)
  adapted:value_head({ seed = 4 }):save(adapter)
  local config = system.json_decode(system.read(adapter .. "/adapter_config.json"))
  config.base_model_name_or_path = folder
  system.write(adapter .. "/adapter_config.json", system.json_encode(config))

  local mesh = moonring.comm.mesh { alone = true }
  local attention = moonring.attention.create { mesh = mesh }
  local function direct(model, values, ids)
    return moonring.no_grad(function()
      local all, positions, _, plan = attention:cut(moonring.comm.sequence { documents = { ids } })
      local hidden = model:forward(all, positions, plan):tolist()[#ids]
      local weight, score = values:weight():weight():tolist()[1], values:bias():weight():tolist()[1]
      for d, w in ipairs(weight) do score = score + w * hidden[d] end
      return score
    end)
  end
  local rows = { prompts = {}, completions = {}, prompt_ids = {}, completion_ids = {} }
  local wanted, wanted_adapted = {}, {}
  local adapted_head = moonring.model.load(moonring.model.open(folder),
    { precision = "fp64", adapters = { adapter } }):value_head()
  for i = 1, 7 do
    local ids = {}
    for t = 1, 3 * i do ids[t] = (i * 31 + t * 17) % 90 end
    rows.prompts[i], rows.completions[i] = "p", "c"
    rows.prompt_ids[i] = { unpack(ids, 1, i) }
    rows.completion_ids[i] = { unpack(ids, i + 1) }
    wanted[i], wanted_adapted[i] = direct(base, head, ids), direct(adapted, adapted_head, ids)
  end
  local function compare(what, path, numbers, tokens)
    local opened = rewards.open({ { model = path, name = "taste" } }, { precision = "fp64",
      micro_batch_tokens = tokens })
    local scores, why = opened:score(rows)
    check(scores, what, ": ", tostring(why))
    for i, number in ipairs(numbers) do
      local got = scores and scores[1].values[i] or 0
      check(math.abs(got - number) <= 1e-12 * math.abs(number), what, ": row ", i, ": expected ",
        number, ", got ", got)
    end
    opened:close()
  end
  check(math.abs(wanted[1] - wanted[2]) > 1e-3, "scores do not differ")
  check(math.abs(wanted[3] - wanted_adapted[3]) > 1e-3, "the adapter changes nothing")
  compare("all in one forward", folder, wanted)
  compare("several forwards", folder, wanted, 20)
  compare("a row each", folder, wanted, 1)
  compare("an adapter", adapter, wanted_adapted)
  rows.completion_ids[2] = { 100000 }
  local opened = rewards.open({ model = folder }, { precision = "fp64" })
  local _, why = opened:score(rows)
  check(tostring(why):find("completion 2 of the batch ('p'): completion_ids has id 100000, and the "
    .. "reward model ", 1, true), "an id beyond: ", tostring(why))
  opened:close()
end

-- Values of keys in YAML are converted to the form that `open` accepts.
function sections.keys()
  local key_values = require "moonring.config.key_values"
  for _, group in ipairs(require "moonring.config.keys.rewards") do
    for _, row in ipairs(group.rows) do key_values.add(row) end
  end
  local path = write("keys.yaml", "reward_funcs:\n  - json\n  - format: '^\\d+$'\n"
    .. "    name: digits\n  - exact: {column: answer, numbers: yes}\n"
    .. "  - length: {most: 2, slope: 4}\nreward_weights: [1, 0.5, 2, 1]\nreward_timeout: 0.5\n")
  local c = moonring.config.load(path, {})
  equal("weights", c.reward_weights, { "1", "0.5", "2", "1" })
  equal("limits", { c.reward_timeout, c.reward_memory_mib }, { 0.5, 1024 })
  local opened = rewards.open(c.reward_funcs, { timeout = c.reward_timeout })
  equal("names", opened:names(), { "json", "digits", "exact", "length" })
  equal("values", values_of(c.reward_funcs), { { 1, 1, 1 }, { 1, 0, 0 }, { 1, 1, "nothing" },
    { 0, 0, -0.75 } })
  for word, names in pairs { ["reward_funcs=json"] = { "json" },
    ["reward_funcs=format:a=b"] = { "format" },
    ["reward_funcs=[json, {length: 3, name: short}]"] = { "json", "short" } } do
    equal(word, rewards.open(moonring.config.load(nil, { word }).reward_funcs):names(), names)
  end
end

sections[section]()
table.sort(failures)
if #failures > 0 then error("\n" .. table.concat(failures, "\n"), 0) end
