-- Gives every key of the table a value other than its default. Either the key has an effect and
-- there is no note, or it is rejected by name, or one line says "KEY: no effect: why". The default
-- gives no line. Also, every key of LLaMA-Factory 0.9.5 (tests/golden/llamafactory_keys) has a row
-- with its default.
local bounds = require "moonring.config.bounds"
local errors = require "moonring.base.errors"
local keys = require "moonring.config.keys"
local moonring = require "moonring"

local null = moonring.null

-- A value other than the default, as on the command line, for keys that do not accept the value
-- that their type suggests.
local OTHER = { galore_target = "q_proj", apollo_target = "q_proj", oft_target = "q_proj",
  lora_target = "q_proj", freeze_trainable_modules = "mlp", freeze_extra_modules = "norm",
  lora_dropout = "0.25", data_source = "rows.lua", objective = "own.lua",
  rollout_hooks = "own.lua" }
local function other(row)
  if OTHER[row[1]] then return OTHER[row[1]] end
  for _, choice in ipairs(row.choices or {}) do
    if choice ~= row[3] then return tostring(choice) end
  end
  if row.choices then return row.own_file and "own.lua" or nil end
  if row[2] == "bool" then return tostring(row[3] ~= true) end
  if row[2] == "int" or row[2] == "float" then
    local number = (tonumber(row[3]) or 1) + 1
    local over = row.most and number > row.most
    return tostring(over and ((row.above or row.least) + row[3]) / 2 or number)
  end
  return row[2] == "any" and '{"a":1}' or "other"
end

-- Loads a configuration with these arguments. Returns the notes about keys without effect; or nil
-- and the reason why the configuration is rejected.
local function notes(...)
  local done, loaded = pcall(moonring.config.load, nil, { ... })
  if not done then return nil, errors.words(loaded) end
  local found = {}
  for _, note in ipairs(loaded.notes) do
    if note:find("no effect", 1, true) then found[#found + 1] = note end
  end
  return found, nil, loaded
end

local function check(holds, ...)
  if not holds then error(table.concat({ ... }, ": "), 2) end
end

local rows, seen = {}, { acts = 0, refused = 0, none = 0, of = 0, stages = 0 }

-- Returns arguments that enable the feature to which a key belongs, and the features that this one
-- requires.
local function gates(row)
  local of, on = row.of, nil
  if not of then return {} end
  if type(of) == "table" then of, on = of[1], of[2] end
  check(rows[of], row[1], "is of a key that there is not", of)
  local words = gates(rows[of])
  words[#words + 1] = of .. "=" .. (on or (rows[of][2] == "bool" and "true") or other(rows[of]))
  return words
end

-- Returns an argument that disables the feature to which a key belongs.
local function off_gate(row)
  if type(row.of) ~= "table" then return row.of .. "=" .. tostring(rows[row.of][3]) end
  local on = {}
  for i = 2, #row.of do on[row.of[i]] = true end
  for _, choice in ipairs(rows[row.of[1]].choices or { rows[row.of[1]][3] }) do
    if not on[choice] then return row.of[1] .. "=" .. choice end
  end
end

-- Checks a key that belongs to another key, with the other key off and on.
local function check_gate(row)
  local name, word, on, off = row[1], row[1] .. "=" .. other(row), gates(row), off_gate(row)
  local of = off:match "^[^=]+"
  local said = notes(off, word)
  check(#said == 1 and said[1]:find("^" .. name .. ": no effect: it acts with " .. of), word,
    tostring(said[1]))
  on[#on + 1] = word
  said = notes(unpack(on))
  check(#said == 0, word, "beside " .. on[#on - 1], tostring(said[1]))
end

-- Checks a key that is covered by the note of the key to which it belongs.
local function check_part(row)
  local owner = row.part_of .. "=" .. other(rows[row.part_of])
  local said = notes(owner, row[1] .. "=" .. other(row))
  check(#said == 1 and said[1]:find("^" .. row.part_of .. ": no effect: "), row[1],
    tostring(said[1]))
end

local function check_row(row)
  local name, effect, value = row[1], keys.effect(row), other(row)
  seen[effect] = seen[effect] + 1
  check(not (row.only and row.ignored), name, "is refused, and accepted")
  if row[3] ~= null then
    check(#notes(name .. "=" .. tostring(row[3])) == 0, name, "its default is not silent")
  end
  for _, refused in ipairs(row.others or {}) do
    local _, why = notes(name .. "=" .. refused)
    check(why and why:find(name, 1, true) and why:find(refused, 1, true), name, refused,
      tostring(why))
  end
  if not value then return end -- the key has only one value
  local said, why = notes(name .. "=" .. value)
  if effect == "refused" then
    check(why and why:find("not supported yet: " .. name .. ": ", 1, true), name, tostring(why))
    check(#why > #name + #"not supported yet: : " + #value, name, "no reason")
  elseif effect == "none" then
    local got = row.secret and "" or (" (got %s)"):format(value)
    check(said and #said == 1 and said[1] == ("%s: no effect: %s%s"):format(name, row.ignored, got),
      name, tostring(why or said[1]))
    check(row.ignored ~= "", name, "no reason")
    if row.part_of then check_part(row) end
  else
    check(said, name, tostring(why))
    if row.of then
      seen.of = seen.of + 1
      check_gate(row)
    else
      check(#said == 0, name, tostring(said[1]))
    end
  end
end

-- Checks a key of certain stages in a stage to which it does not belong.
local function check_stages(row)
  local value = row.stages and other(row)
  if not value then return end
  seen.stages = seen.stages + 1
  local elsewhere
  for _, stage in ipairs(rows.stage.choices) do
    local acts = false
    for _, own in ipairs(row.stages) do acts = acts or own == stage end
    elsewhere = elsewhere or not acts and stage or nil
  end
  local _, why, loaded = notes("stage=" .. elsewhere, "finetuning_type=full",
    row[1] .. "=" .. value)
  check(loaded, row[1], tostring(why))
  local done, said = pcall(bounds.check, loaded)
  check(not done and errors.words(said):find("^" .. row[1] .. " is for stage"), row[1],
    tostring(said))
end

for row in keys.rows() do
  check(not rows[row[1]], row[1], "has two rows")
  rows[row[1]] = row
end
for row in keys.rows() do
  check_row(row)
  check_stages(row)
end
check(seen.acts > 200 and seen.refused > 20 and seen.none > 100 and seen.of >= 40
  and seen.stages >= 20, "few rows", moonring.system.json_encode(seen))

-- Keys whose default intentionally differs from LLaMA-Factory's, with a part of the explanation in
-- the key's row.
local DIFFERS = { do_sample = "absent in chat: by temperature and its like",
  include_num_input_tokens_seen = "false is a spelling of no", optim = "fused is the same AdamW",
  remove_unused_columns = "LLaMA-Factory sets it to false",
  report_to = "null is all that are installed",
  include_for_metrics = "an empty list", debug = "an empty list" }
local count = 0
local text = moonring.system.read(arg[1])
for name, theirs in pairs(moonring.system.json_decode(text, arg[1])) do
  local default = theirs.default
  local row = rows[keys.aliases[name] or name]
  check(row, name, "LLaMA-Factory has it, and no row has")
  local same = tostring(default) == tostring(row[3]) or keys.aliases[name] ~= nil
  check(same ~= (DIFFERS[name] ~= nil), name, "default", tostring(row[3]), tostring(default))
  count = count + 1
end
check(count > 360, "keys of LLaMA-Factory", tostring(count))
