--- Rewards from external programs. `command` is a program that keeps running; it receives lines of
-- JSON on stdin and answers on stdout. `url` is an HTTP service that receives the same JSON by
-- POST. Both are refused under --sandbox.
--
--   question  {"prompts": [..], "completions": [..], "stopped": [..], "rows": [..],
--              "messages": [..], "columns": {NAME: [..]}}; only the fields that exist. A row
--              without a value has null. With ids: true also "prompt_ids" and "completion_ids"
--   answer    [1, 0.5, null]: a number for each completion, or null for no score; or
--             {"error": TEXT}
--
-- A request is repeated if the program or service exits, is unreachable, answers 5xx or 429, or
-- exceeds the deadline (program.lua). Other invalid answers are errors at once, because a repeated
-- request would get them again.
local errors = require "moonring.base.errors"
local native = require "moonring.native.rewards"
local program = require "moonring.rewards.program"
local row_words = require "moonring.rewards.row_words"
local system = require "moonring.native.system"

---@class moonring.external_rewards
local external = {}

local LONGEST_PAUSE = 10

--- Copies a list of `count` values, with null for missing ones.
---@param list table
---@param count integer
---@return table
function external.filled(list, count)
  local items = {}
  for i = 1, count do
    local value = list[i]
    items[i] = (value == nil or value == false) and system.null or value
  end
  return items
end

local function question(spec, batch, count)
  local asked = { prompts = batch.prompts, completions = batch.completions, rows = batch.rows,
    stopped = batch.stopped }
  if batch.messages then asked.messages = external.filled(batch.messages, count) end
  for name, list in pairs(batch.columns or {}) do
    asked.columns = asked.columns or {}
    asked.columns[name] = external.filled(list, count)
  end
  if spec.ids then
    asked.prompt_ids, asked.completion_ids = batch.prompt_ids, batch.completion_ids
  end
  return system.json_encode(asked)
end

local function beginning(text) return #text > 80 and text:sub(1, 80) .. "..." or text end

--- Parses and checks an answer: a number or false per completion. `row` of an error is the index of
--- the completion, from 0.
---@param scorer moonring.Scorer
---@param batch moonring.RewardBatch
---@param count integer
---@param text string
---@return (number | false)[]
function external.answer_of(scorer, batch, count, text)
  local ok, answer = pcall(system.json_decode, text, "the answer")
  if not ok then
    row_words.fail(scorer, batch, 0, errors.words(answer), ": got '", beginning(text),
      "', expected a list of ", count, " numbers")
  end
  if type(answer) == "table" and answer.error ~= nil then
    row_words.fail(scorer, batch, (tonumber(answer.row) or -1) + 1, "it says: ",
      tostring(answer.error))
  end
  if type(answer) ~= "table" or (#answer == 0 and next(answer) ~= nil) then
    row_words.fail(scorer, batch, 0, "got '", beginning(text), "', expected a list of ", count,
      " numbers")
  elseif #answer ~= count then
    row_words.fail(scorer, batch, 0, "got ", #answer, " values for ", count,
      " completions; expected one each, null where there is nothing to say")
  end
  local values = {}
  for i, value in ipairs(answer) do
    if value ~= system.null and type(value) ~= "number" then
      row_words.fail(scorer, batch, i, "got ", beginning(system.json_encode { value }:sub(2, -2)),
        ", expected a number, or null where there is nothing to say")
    end
    values[i] = value ~= system.null and value
  end
  return values
end

--- Creates the reward `command`: starts a program, which answers requests until the run ends.
---@param spec moonring.RewardSpec
---@param context table options from rewards.open
---@return moonring.Scorer[]
function external.command(spec, context)
  local scorer = { name = spec.name or "command", is_named = spec.name ~= nil,
    place = table.concat(spec.command, " ") }
  local ask, stop = program.open(spec, context, spec.command, scorer.name)
  function scorer.score(batch, count)
    return external.answer_of(scorer, batch, count, ask(question(spec, batch, count), scorer,
      batch))
  end
  scorer.close = stop
  return { scorer }
end

--- Creates the reward `url`, which requests scores from an HTTP service.
---@param spec moonring.RewardSpec
---@param context table options from rewards.open
---@return moonring.Scorer[]
function external.url(spec, context)
  program.refuse_confined(spec, "asks no service")
  local ok, why = pcall(native.check_address, spec.url)
  if not ok then errors.prefix(why, spec.where, ": url: ") end
  local scorer = { name = spec.name or "url", is_named = spec.name ~= nil, place = spec.url }
  function scorer.score(batch, count)
    local text = question(spec, batch, count)
    local answer = program.persist(spec, scorer, batch, context, function()
      local code, reason, body = native.post(spec.url, text, spec.timeout or context.timeout)
      if code == 200 then return body end
      local words = ("it says %d %s"):format(code, reason)
      if body ~= "" then words = words .. ": " .. beginning((body:gsub("%s+", " "))) end
      errors.raise((code >= 500 or code == 429) and "UNAVAILABLE" or "ABORTED", words)
    end, function(try) native.sleep(math.min(0.5 * 2 ^ (try - 1), LONGEST_PAUSE)) end)
    return external.answer_of(scorer, batch, count, answer)
  end
  return { scorer }
end

return external
