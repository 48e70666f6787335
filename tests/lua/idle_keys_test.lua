-- Each key that acts beside another one alone: a value of its own is noted where that one is off,
-- and is not where it is on; its default is never.
local moonring = require "moonring"
local keys = require "moonring.config.keys"

-- Another value than the default, as a word of the command line.
local OTHER = { galore_target = "q_proj", apollo_target = "q_proj", oft_target = "q_proj",
  freeze_trainable_modules = "mlp", freeze_extra_modules = "norm", lora_dropout = "0.25" }
local function other(row)
  if OTHER[row[1]] then return OTHER[row[1]] end
  for _, choice in ipairs(row.choices or {}) do
    if choice ~= row[3] then return choice end
  end
  if row[2] == "bool" then return tostring(not row[3]) end
  return tostring((tonumber(row[3]) or 1) + 1)
end

local function notes(...)
  local found = {}
  for _, note in ipairs(moonring.config.load(nil, { ... }).notes) do
    if note:find("changes nothing here", 1, true) then found[#found + 1] = note end
  end
  return found
end

-- What its gate is while it is off: full fine-tuning, and every switch at its default.
local rows, seen = {}, 0
for row in keys.rows() do rows[row[1]] = row end
for row in keys.rows() do
  if row.of then
    seen = seen + 1
    local name, of, on = row[1], row.of, "true"
    if type(of) == "table" then of, on = of[1], of[2] end
    assert(rows[of], name .. " is of a key that there is not: " .. of)
    local word, off = name .. "=" .. other(row), of == "finetuning_type" and "full" or nil
    local function with(gate, ...)
      if gate then return notes(of .. "=" .. gate, ...) end
      return notes(...)
    end
    local said = with(off, word)
    assert(#said == 1 and said[1]:find("^" .. name .. ": ") and said[1]:find(of, 1, true),
      word .. ": " .. tostring(said[1]))
    assert(#with(on, word) == 0, word .. " beside " .. of .. "=" .. on)
    if row[3] ~= moonring.null then
      local default = name .. "=" .. tostring(row[3])
      assert(#with(off, default) == 0, default .. " is what it is anyway")
    end
  end
end
assert(seen >= 30, seen .. " keys")
