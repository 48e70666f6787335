-- Checks the values of LLaMA-Factory 0.9.5's keys (arg[1]: tests/golden/llamafactory_keys), each in
-- a separate file (arg[3]: a folder for it), up to the point where a model would be opened. With
-- its default, each of its choices, each value in the examples (arg[2]), and other spellings of the
-- value, a key has an effect, or one line says that it has none, or it is rejected with its name
-- and line. With an invalid value it is rejected with its name and line.
local errors = require "moonring.base.errors"
local keys = require "moonring.config.keys"
local moonring = require "moonring"
local checks = require "moonring.run.checks"

local system, null = moonring.system, moonring.null
local theirs = system.json_decode(system.read(arg[1]), arg[1])
local examples = system.json_decode(system.read(arg[2]), arg[2])
local path = arg[3] .. "/c.yaml"

local rows = {}
for row in keys.rows() do rows[row[1]] = row end

-- Other keys that a configuration needs.
local BASE = { model_name_or_path = "model", dataset = "rows", dataset_dir = arg[3], template =
  "chatml", output_dir = arg[3] .. "/out", overwrite_output_dir = true, max_steps = 1,
  do_train = true }
local BESIDE = { load_best_model_at_end = "eval_strategy: steps\nval_size: 2\nsave_steps: 500",
  compute_accuracy = "eval_strategy: steps\nval_size: 2", do_eval = "val_size: 2",
  eval_strategy = "val_size: 2", eval_on_start = "val_size: 2\neval_strategy: steps",
  do_predict = "predict_with_generate: true\nval_size: 2", predict_with_generate = "val_size: 2",
  early_stopping_steps = "eval_strategy: steps\nval_size: 2", streaming = "max_steps: 2" }

-- Loads a configuration with one key in YAML, in addition to the keys that it needs. Returns the
-- configuration and its notes; or nil and the reason why it is rejected.
local function check(name, text)
  local own = keys.aliases[name] or name
  local lines = { name .. ": " .. text, BESIDE[name] }
  local given = table.concat(lines, "\n")
  for key, value in pairs(BASE) do
    if key ~= own and not ("\n" .. given):find("\n" .. key .. ": ", 1, true) then
      lines[#lines + 1] = key .. ": " .. tostring(value)
    end
  end
  system.write(path, table.concat(lines, "\n") .. "\n")
  local done, c = pcall(moonring.config.load, path, {})
  if not done then return nil, errors.words(c) end
  local ok, why = pcall(checks.train, c)
  if not ok then return nil, errors.words(why) end
  return c
end

local counts = { acts = 0, told = 0, refused = 0 }

-- Whether a text contains the name of a key, not as part of another name.
local function names(text, name)
  return (" " .. text .. " "):find("[^%w_]" .. name .. "[^%w_]") ~= nil
end

local failures = {}
local function fail(...) failures[#failures + 1] = table.concat({ ... }, ": ") end

-- Checks that a value has one of the three outcomes.
local function look_anew(name, text)
  local own, c, why = keys.aliases[name] or name, check(name, text)
  if not c then
    counts.refused = counts.refused + 1
    if why:find "\n" or not names(why, own) then
      fail(name .. ": " .. text, "refused without its name", why)
    end
    return "refused", why
  end
  for _, note in ipairs(c.notes) do
    if names(note, own) then
      counts.told = counts.told + 1
      return "told", note
    end
  end
  counts.acts = counts.acts + 1
  return "acts", c
end

local seen = {}
local function look(name, text)
  local key = name .. ": " .. text
  seen[key] = seen[key] or { look_anew(name, text) }
  return unpack(seen[key])
end

-- Returns a value as YAML.
local function yaml(value)
  if value == nil or value == null then return "null" end
  return type(value) == "string" and system.json_encode(value) or system.json_encode(value)
end

-- Keys without a default in LLaMA-Factory, which a run requires.
local REFUSED_DEFAULTS = { model_name_or_path = true, dataset = true, output_dir = true,
  dataset_dir = true }
-- Keys whose default gives a note: LLaMA-Factory itself sets remove_unused_columns to false, and
-- with do_train: false there is nothing to do.
local TOLD_DEFAULTS = { remove_unused_columns = true, do_train = true }

local function look_at_default(name, key)
  local became, why = look(name, yaml(key.default))
  if became == "refused" and not REFUSED_DEFAULTS[name] then fail(name, "its default", why) end
  if became == "told" and not TOLD_DEFAULTS[name] and key.default ~= nil then
    fail(name, "its default is told", why)
  end
end

-- Checks a value in other spellings: quoted, and as in YAML 1.1.
local function look_at_spellings(name, key)
  local row = rows[keys.aliases[name] or name]
  local function same(a, b)
    local first, x = look(name, a)
    local second, y = look(name, b)
    if first ~= second then fail(name, a .. " is " .. first, b .. " is " .. second, tostring(y)) end
    if first ~= "acts" or second ~= "acts" then return end
    local is, other = yaml(x[row[1]]), yaml(y[row[1]])
    if is ~= other then fail(name, a .. " is " .. is, b .. " is " .. other) end
  end
  if key.type == "bool" then
    for _, word in ipairs { "True", "yes", "on", '"true"', "1" } do same("true", word) end
    for _, word in ipairs { "False", "no", "off", '"false"', "0" } do same("false", word) end
  elseif key.type == "int" then
    for _, word in ipairs { '"16"', "1_6", "16.0", "0x10", "1.6e1" } do same("16", word) end
  elseif key.type == "float" then
    for _, word in ipairs { '"0.25"', ".25", "2.5e-1", "0.2_5" } do same("0.25", word) end
  elseif key.type:find "list" then
    same("[none]", "none")
  end
end

-- Returns an invalid value of a key. Keys that accept any text only reject lists and maps.
local function wrong(name, key)
  if key.type:find "map" then return "[1, 2]" end
  if key.type:find "list" or rows[keys.aliases[name] or name][2] == "list" then
    return "[{a: 1}]"
  end
  if key.choices then return "nonsense" end
  return key.type == "string" and "[a, b]" or key.type == "bool" and "maybe" or "many"
end

-- Whether a key never has an effect.
local function is_idle(name) return keys.effect(rows[keys.aliases[name] or name]) == "none" end

local function look_at_wrong(name, key)
  local text = wrong(name, key)
  local became, why = look(name, text)
  if became == "acts" or (became == "told" and not is_idle(name)) then
    fail(name, "its wrong value", text, became)
  end
  if became == "refused" and not why:find("^" .. path:gsub("%p", "%%%0") .. ":1: ") then
    fail(name, "its wrong value is refused without its line", why)
  end
end

local used = {} -- the values in the examples as YAML, by key
for _, example in pairs(examples) do
  for name, value in pairs(example) do
    used[name] = used[name] or {}
    used[name][yaml(value)] = true
  end
end

local total = 0
for name, key in pairs(theirs) do
  total = total + 1
  look_at_default(name, key)
  for _, choice in ipairs(key.choices or {}) do look(name, yaml(choice)) end
  for text in pairs(used[name] or {}) do look(name, text) end
  look_at_spellings(name, key)
  look_at_wrong(name, key)
end
if total < 360 then fail("keys", tostring(total)) end
table.sort(failures)
if #failures > 0 then error(table.concat(failures, "\n", 1, math.min(20, #failures)), 0) end
print(("%d keys: %d values act, %d do nothing and say so, %d are refused by name"):format(total,
  counts.acts, counts.told, counts.refused))
