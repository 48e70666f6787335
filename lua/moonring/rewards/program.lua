--- A program that answers lines of JSON, for rewards. It runs until the run ends. A request is
-- repeated up to `retries` times if the program exits or exceeds the deadline: it is restarted
-- first, after a pause that doubles each time.
local errors = require "moonring.base.errors"
local native = require "moonring.native.rewards"
local row_words = require "moonring.rewards.row_words"
local sandbox = require "moonring.sandbox"

---@class moonring.reward_program
local program = {}

local RETRIES, LONGEST_PAUSE = 2, 10
local PASSING = { UNAVAILABLE = true, DEADLINE_EXCEEDED = true }

--- Calls `ask` until it succeeds or no retries are left. `again` prepares the next try. Only
--- failures that may be temporary are retried.
---@param spec moonring.RewardSpec
---@param scorer moonring.Scorer
---@param batch moonring.RewardBatch
---@param context table options from rewards.open
---@param ask fun(): string
---@param again fun(try: integer)
---@return string
function program.persist(spec, scorer, batch, context, ask, again)
  local tries = (spec.retries or RETRIES) + 1
  for try = 1, tries do
    local ok, answer = pcall(ask)
    if ok then return answer end
    local code, words = errors.code(answer), errors.words(answer)
    if code == "CANCELLED" or not code then error(answer, 0) end
    if code == "DEADLINE_EXCEEDED" then
      words = ("no answer within %g seconds"):format(spec.timeout or context.timeout)
    end
    if not PASSING[code] then row_words.raise(code, scorer, batch, 0, words) end
    if try == tries then
      row_words.raise(code, scorer, batch, 0, words, tries > 1
        and (" (the last of %d tries)"):format(tries) or "")
    end
    context.say(("%s: %s; try %d of %d"):format(row_words.of_scorer(scorer), words, try + 1,
      tries))
    again(try)
  end
end

--- Refuses a reward that is not available under --sandbox. Errors: PERMISSION_DENIED.
---@param spec moonring.RewardSpec
---@param what string "starts no program"
function program.refuse_confined(spec, what)
  if not sandbox.is_confined() then return end
  errors.raise("PERMISSION_DENIED", spec.where, ": --sandbox: a reward ", what, " (", spec.kind,
    ")")
end

--- Starts a program. Its lines on stderr are logged with the prefix `name`. Returns `ask`, which
--- sends a line on behalf of a scorer and returns the answer, and `stop`. Errors: those of starting
--- it, with the spec's place.
---@param spec moonring.RewardSpec
---@param context table options from rewards.open
---@param command string[]
---@param name string
---@return fun(line: string, scorer: moonring.Scorer, batch: moonring.RewardBatch): string ask
---@return fun() stop
function program.open(spec, context, command, name)
  program.refuse_confined(spec, "starts no program")
  local child
  local function start() child = native.child(command) end
  local function stop()
    if not child then return end
    child:close()
    child = nil
  end
  local function ask_once(line)
    if not child then start() end
    local asked, answer = pcall(child.ask, child, line, spec.timeout or context.timeout)
    for _, said in ipairs(child:lines()) do context.say(name .. ": " .. said) end
    if asked then return answer end
    stop()
    error(answer, 0)
  end
  local ok, why = pcall(start)
  if not ok then errors.prefix(why, spec.where, ": ") end
  return function(line, scorer, batch)
    return program.persist(spec, scorer, batch, context, function() return ask_once(line) end,
      function(try) native.sleep(math.min(0.1 * 2 ^ (try - 1), LONGEST_PAUSE)) end)
  end, stop
end

return program
