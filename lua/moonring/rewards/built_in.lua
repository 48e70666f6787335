--- Built-in rewards: format, exact, length and json, as named in reward_funcs.
local errors = require "moonring.base.errors"
local native = require "moonring.native.rewards"
local row_words = require "moonring.rewards.row_words"
local system = require "moonring.native.system"

---@class moonring.built_in_rewards
local built_in = {}

local function scorer_of(spec, score)
  local scorer = { name = spec.name or spec.kind, is_named = spec.name ~= nil, place = "" }
  function scorer.score(batch, count)
    local values = {}
    for i = 1, count do values[i] = score(scorer, batch, i) end
    return values
  end
  return { scorer }
end

local function pattern_of(spec)
  if not spec.pattern then return nil end
  local ok, pattern = pcall(native.pattern, spec.pattern)
  if not ok then errors.prefix(pattern, spec.where, ": ") end
  return pattern
end

-- The text that a pattern matches in completion i: its first group, or the whole match if it has no
-- groups; nil without a match. If there is no pattern, the whole completion.
local function found(scorer, batch, i, pattern)
  local text = batch.completions[i]
  if not pattern then return text end
  local ok, match = pcall(pattern.find, pattern, text)
  if not ok then
    row_words.raise(errors.code(match) or "ABORTED", scorer, batch, i, errors.words(match))
  end
  if not match then return nil end
  return #match == 1 and match[1] or match[2] or nil
end

local function trimmed(text) return text:match "^%s*(.*%S)" or "" end

--- The reward `format`: 1 if the pattern is found in the completion, otherwise 0.
---@param spec moonring.RewardSpec
---@return moonring.Scorer[]
function built_in.format(spec)
  local pattern = pattern_of(spec)
  return scorer_of(spec, function(scorer, batch, i)
    return found(scorer, batch, i, pattern) and 1 or 0
  end)
end

-- Parses a number, ignoring commas between thousands; nil if the text is not a number.
local function number_of(text)
  local plain = trimmed(text):gsub(",", "")
  if not plain:find "^[%+%-]?%.?%d[%d%.]*[eE]?[%+%-]?%d*$" then return nil end
  return tonumber(plain)
end

-- The text in a column of row i; nil if the row has no value there.
local function column_of(scorer, batch, i, name)
  local list = (batch.columns or {})[name]
  if not list then
    local names = {}
    for known in pairs(batch.columns or {}) do names[#names + 1] = known end
    row_words.fail(scorer, batch, 0, "the data has no column '", name, "'",
      system.did_you_mean(name, names), "; it has ", #names > 0 and table.concat(names, ", ")
      or "none besides the prompt")
  end
  local value = list[i]
  if value == nil or value == system.null then return nil end
  if type(value) == "table" then
    row_words.fail(scorer, batch, i, "column '", name,
      "': got a table, expected a text or a number")
  end
  return tostring(value)
end

--- The reward `exact`: 1 if the completion, or the pattern's match in it, equals the text of a
--- column, otherwise 0. There is no score if the row has no such text. White space at both ends is
--- ignored. With `numbers`, numbers are compared by value.
---@param spec moonring.RewardSpec
---@return moonring.Scorer[]
function built_in.exact(spec)
  local pattern = pattern_of(spec)
  return scorer_of(spec, function(scorer, batch, i)
    local wanted = column_of(scorer, batch, i, spec.column)
    if not wanted then return false end
    local got = found(scorer, batch, i, pattern)
    if not got then return 0 end
    if trimmed(got) == trimmed(wanted) then return 1 end
    local a, b = number_of(got), number_of(wanted)
    return spec.numbers and a and a == b and 1 or 0
  end)
end

--- The reward `length`, for a completion of n tokens including the stop token. With `most`: 0 if n
--- is at most `most`, otherwise -(n - most) / slope. With `target`: -|n - target| / slope. Both are
--- at least -1. The default of slope is `most` or `target`. (DAPO's soft overlong punishment,
--- arXiv:2503.14476, eq. 13, has most = L_max - L_cache and slope = L_cache.)
---@param spec moonring.RewardSpec
---@return moonring.Scorer[]
function built_in.length(spec)
  if (spec.most == nil) == (spec.target == nil) then
    errors.fail(spec.where, ": length: expected one of most and target")
  end
  local slope = spec.slope or spec.most or spec.target
  return scorer_of(spec, function(scorer, batch, i)
    local ids = (batch.completion_ids or {})[i]
    if not ids then row_words.fail(scorer, batch, i, "expected completion_ids, got nothing") end
    local off = spec.most and math.max(#ids - spec.most, 0) or math.abs(#ids - spec.target)
    return -math.min(off / slope, 1) + 0 -- avoids -0
  end)
end

--- The reward `json`: 1 if the completion, or the pattern's match in it, is valid JSON; if keys are
--- given, it must be an object with all of them. Otherwise 0.
---@param spec moonring.RewardSpec
---@return moonring.Scorer[]
function built_in.json(spec)
  local pattern = pattern_of(spec)
  return scorer_of(spec, function(scorer, batch, i)
    local text = found(scorer, batch, i, pattern)
    local ok, value = pcall(system.json_decode, text or "")
    if not ok then return 0 end
    for _, key in ipairs(spec.keys or {}) do
      if type(value) ~= "table" or value[key] == nil then return 0 end
    end
    return 1
  end)
end

return built_in
