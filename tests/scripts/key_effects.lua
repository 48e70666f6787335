-- Each key that acts (lua/moonring/config/keys) has an effect: two runs that differ only in this
-- key's value differ in what is observed of them. Observed are: losses, gradient norms, metrics and
-- learning rates; the lines that the run prints; the files that it writes, and digests of weights
-- and answers; the arguments of native functions; or the text of a plan. Lines that only say "no
-- effect" do not count, and a refusal counts only if the case names its words. So a key that no
-- code reads any more fails. key_effect_cases.lua has the values.
-- Arguments: the path of key_effect_cases.lua; `once`, or `twice` to also repeat each run with
-- default values, which must show the same; and optionally the only keys to test.
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

local cases = assert(loadfile(arg[1]))()
local failures, lines = {}, {} -- `lines`: what is observed of the present run

local function check(holds, ...)
  if not holds then failures[#failures + 1] = table.concat({ ... }, ": ") end
end

-- Recording
-- ------------------------------------------------------------

local function note(...) lines[#lines + 1] = table.concat { ... } end

local function text_of(value)
  if type(value) ~= "table" then
    local plain = type(value) == "string" or type(value) == "number" or type(value) == "boolean"
    return plain and tostring(value) or type(value)
  end
  local fields = {}
  for name, each in pairs(value) do fields[#fields + 1] = tostring(name) .. "=" .. text_of(each) end
  table.sort(fields)
  return "{" .. table.concat(fields, ", ") .. "}"
end

-- Functions whose arguments depend on time or on free memory.
local UNSTEADY = { hold_files = true, matmul_rate = true, progress = true,
  release_memory = true }

-- Methods of native objects that take values of keys.
local METHODS = { call = true, generate = true, grow_vocabulary = true, load = true, rollout = true,
  save = true, steps = true }

local recorded = {} -- tables of methods

-- Replaces native functions by ones that record their arguments, and so METHODS of their results.
local function record(functions, prefix, names)
  recorded[functions] = true
  local function returned(...)
    for i = 1, select("#", ...) do
      local object = select(i, ...)
      local class = type(object) == "userdata" and getmetatable(object)
      local methods = class and class.__index
      if type(methods) == "table" and not recorded[methods] then
        record(methods, "method ", METHODS)
      end
    end
    return ...
  end
  for name, f in pairs(functions) do
    if type(f) == "function" and not UNSTEADY[name] and (not names or names[name]) then
      functions[name] = function(...)
        local words = {}
        for i = 1, select("#", ...) do words[i] = text_of((select(i, ...))) end
        note(prefix, name, "(", table.concat(words, ", "), ")")
        return returned(f(...))
      end
    end
  end
end

for _, library in ipairs { "attention", "comm", "data", "hub", "mixing", "model", "objectives",
  "rewards", "source", "trainer" } do
  record(require("moonring.native." .. library), library .. ".")
end

-- Other modules may keep native functions, so they are loaded now.
local bounds = require "moonring.config.bounds"
local errors = require "moonring.base.errors"
local keys = require "moonring.config.keys"
local memory_check = require "moonring.plan.check"
local memory_facts = require "moonring.plan.facts"
local moonring = require "moonring"
local plan_text = require "moonring.plan.text"
local terminal = require "moonring.base.terminal"

-- Records the lines of a run in place of printing them.
local new_progress = trainer.progress
function trainer.progress(options)
  note("progress ", options.kind)
  local progress = new_progress { kind = "off" }
  local recorder = { line = function(_, line) note(line) end,
    report = function(_, _, line) note(line) end }
  return setmetatable(recorder, { __index = function(_, name)
    return function(_, ...) return progress[name](progress, ...) end
  end })
end

-- Records what scripts print, and the paths of files that Lua writes.
for _, name in ipairs { "print", "write", "note" } do terminal[name] = note end
local write = system.write
function system.write(path, text)
  note("writes ", (path:gsub("%d%d%d+", "N")))
  return write(path, text)
end

-- A run that would start ranks is refused, with their number.
function system.launch(ranks) error("starts ranks: " .. ranks, 0) end

-- Replaces times, rates and sizes of memory, which differ from run to run.
local function steady(line)
  return (line:gsub("%d+%.?%d* s%f[%W]", "TIME"):gsub("%d+:%d%d:%d%d", "TIME"):gsub(
    "[%d,.]+ tokens/s", "RATE"):gsub("%d+%.?%d* [KMG]i?B", "SIZE"):gsub(
    "%d%d%-%d%d%-%d%d_[%w.-]+", "DATE"):gsub("events%.out%.%S+", "EVENTS"))
end

-- Whether a run has a line or not depends on how long its training takes.
local function depends_on_time(line) return line:find "^utilisation " ~= nil end

local UNSTEADY_RESULTS = { "runtime", "per_second", "per_sec", "_time$" }

-- The content of a file that is compared; "" for others, of which only the name counts.
local function content_of(path, name)
  if name:find "%.safetensors$" or name:find "%.gguf$" or name == "generated_predictions.jsonl" then
    return system.sha1(system.read(path))
  elseif name == "trainer_log.jsonl" or name:find "_state%.json$" then
    local names = {}
    for each in system.read(path):gmatch '"([%w_/]+)":' do names[#names + 1] = each end
    return table.concat(names, " ") .. (system.read(path):match '"best_metric":[^,}]*' or "")
  elseif name == "records.jsonl" then
    return system.read(path):match '"name":"[^"]*"'
  elseif name:find "results%.json$" then
    local numbers = system.json_decode(system.read(path))
    for each in pairs(numbers) do
      for _, pattern in ipairs(UNSTEADY_RESULTS) do
        if each:find(pattern) then numbers[each] = "" end
      end
    end
    return text_of(numbers)
  end
  return ""
end

local function note_files(path)
  if system.is_folder(path) then
    for _, name in ipairs(system.list(path)) do note_files(path .. "/" .. name) end
  elseif system.exists(path) then
    note("file ", path, " ", content_of(path, path:match "[^/]*$"))
  end
end

-- Runs
-- ------------------------------------------------------------

local function load(words)
  local c = moonring.config.load("config.yaml", words)
  bounds.check(c)
  return c
end

local ways = {}

function ways.train(words)
  local run = moonring.run.open(load(words))
  for step in run:steps() do
    local update = run:update(step)
    note("step ", text_of { update.loss, update.grad_norm, update.lr,
      moonring.metrics.means(update.metrics or {}) })
    run:log(update)
    run:evaluate_if_due()
    run:save_if_due()
  end
  run:finish()
end

function ways.plan(words)
  local c = load(words)
  moonring.plan.settle(c)
  local checkpoint = moonring.model.open_config(c.model_name_or_path, c)
  local memory, device = 8e10, moonring.plan.device(setmetatable({ memory = "80GB" },
    { __index = c }))
  local function facts_with(changes)
    return memory_facts.run(setmetatable(changes, { __index = c }), checkpoint,
      { ranks = 8, device = device, machine = 4 })
  end
  memory_check.settle_casts(c, device, facts_with, memory)
  note("plan ", plan_text.whole(facts_with {}, { name = "model", memory = memory,
    length = c.cutoff_len, links = { near = 1e11, far = 1e10, named = "links" },
    facts_with = facts_with }))
end

function ways.export(words)
  local script = system.script_path "export"
  local chunk = assert(loadfile(script))
  setfenv(chunk, setmetatable({ arg = { [0] = script, "config.yaml", unpack(words) } },
    { __index = _G }))
  chunk()
end

local OUTPUTS = { "out", "merged", "merged.gguf", "prepared", "elsewhere" }

-- What is observed of a run: its different lines, sorted, and the refusal, if any.
local function observe(words, way)
  -- Closes the run before, with its lock of output_dir and its model. LuaJIT's compiled code refers
  -- to closures, which may hold a model: which ones differs from process to process.
  jit.flush()
  collectgarbage()
  lines = {}
  for _, path in ipairs(OUTPUTS) do system.remove(path) end
  local done, why = pcall(ways[way], words)
  for _, path in ipairs(OUTPUTS) do note_files(path) end
  local kept, has = {}, {}
  for _, line in ipairs(lines) do
    line = way == "plan" and line or steady(line)
    local counts = not line:find("no effect", 1, true) and not depends_on_time(line)
    if not has[line] and counts then kept[#kept + 1] = line end
    has[line] = true
  end
  table.sort(kept)
  return table.concat(kept, "\n"), not done and errors.words(why) or nil
end

-- Cases
-- ------------------------------------------------------------

local rows = {}
for row in keys.rows() do rows[row[1]] = row end

-- A value other than the default; nil if only the default is accepted.
local function value_of(row)
  local case = cases.of[row[1]]
  if case and case[1] then return case[1] end
  for _, choice in ipairs(row.choices or {}) do
    if choice ~= row[3] then return tostring(choice) end
  end
  if row.choices then return nil end
  if row[2] == "bool" then return tostring(row[3] ~= true) end
  local number = tonumber(row[3])
  return number and tostring(number + 1) or "other"
end

-- The words that make a key act: of its stage and type of finetuning, of the key that it belongs
-- to, and of its case. Later words replace earlier ones of the same key.
local function context_of(row)
  local words, place = {}, {}
  local function add(word)
    local name = word:match "^[^=]*"
    place[name] = place[name] or #words + 1
    words[place[name]] = word
  end
  local function open(each)
    local stages, kinds, of, on = each.stages, each.finetuning, each.of, nil
    if stages and not table.concat(stages, " "):find "sft" then add("stage=" .. stages[1]) end
    if kinds then add("finetuning_type=" .. (type(kinds) == "table" and kinds[1] or kinds)) end
    if not of then return end
    if type(of) == "table" then of, on = of[1], of[2] end
    open(rows[of])
    add(of .. "=" .. (on or value_of(rows[of])))
  end
  for word in cases.base:gmatch "%S+" do add(word) end
  open(row)
  local case = cases.of[row[1]] or {}
  local own = case[2] or ""
  local stage = own:match "stage=(%S+)" or words[place.stage or 0]
  stage = (" " .. (stage or "sft")):match "[^= ]*$"
  for word in (cases.stages[stage] or ""):gmatch "%S+" do add(word) end
  for word in own:gmatch "%S+" do add(word) end
  return words
end

local function with(words, word)
  local changed, name = {}, word:match "^[^=]*"
  for _, each in ipairs(words) do
    if each:match "^[^=]*" ~= name then changed[#changed + 1] = each end
  end
  changed[#changed + 1] = word
  return changed
end

local bases = {} -- by their words: what is observed, to be observed again at the end

local function base_of(words, way)
  local name = way .. " " .. table.concat(words, " ")
  if not bases[name] then
    local seen, refused = observe(words, way)
    bases[name] = { words = words, way = way, seen = seen, refused = refused }
  end
  return bases[name]
end

local function check_row(row, value)
  local name, case = row[1], cases.of[row[1]] or {}
  if case.test then
    local source = system.read(arg[1]:match "^.*/" .. case.test)
    check(source:find('"' .. name .. "=", 1, true), name, "no run with it in " .. case.test)
    return
  end
  local words, way = context_of(row), case.way or "train"
  local base, changed = base_of(words, way), with(words, name .. "=" .. value)
  local seen, refused = observe(changed, way)
  local said = name .. "=" .. value
  if case.refused then
    check(refused and refused:find(case.refused, 1, true), said, "wanted the refusal '"
      .. case.refused .. "'", tostring(refused))
  else
    check(case.fails or not refused, said, tostring(refused))
  end
  check(case.fails or not base.refused, "without " .. said, tostring(base.refused))
  check(seen ~= base.seen or refused ~= base.refused, said, "has no effect: " .. way .. " "
    .. table.concat(words, " "))
end

-- The first line of `a` that is not in `b`.
local function line_beyond(a, b)
  for line in a:gmatch "[^\n]+" do
    if not b:find(line, 1, true) then return line:sub(1, 200) end
  end
  return "nothing"
end

cases.prepare(ways.train)
local only, tested = {}, 0
for i = 3, #arg do only[arg[i]] = true end
for row in keys.rows() do
  local value = keys.acts(row) and (next(only) == nil or only[row[1]]) and value_of(row)
  if value then
    tested = tested + 1
    check_row(row, value)
  end
end
for name in pairs(cases.of) do
  check(rows[name] and keys.acts(rows[name]), name, "has a case, and no row that acts")
end
-- What differs from run to run by itself would look like an effect.
for name, base in pairs(arg[2] == "twice" and bases or {}) do
  local seen = observe(base.words, base.way)
  check(seen == base.seen, name, "is not the same twice", line_beyond(base.seen, seen),
    line_beyond(seen, base.seen))
end
check(next(only) ~= nil or tested > 260, "few keys", tostring(tested))
table.sort(failures)
print(#failures == 0 and ("%d keys have an effect"):format(tested) or table.concat(failures, "\n"))
os.exit(#failures == 0 and 0 or 1)
