--- Rewards from a Lua file. Its functions run in a Lua state of their own, with limits on time and
-- memory (lua/vm/isolated_state.h). If a call fails, both that state and the run can continue.
local errors = require "moonring.base.errors"
local native = require "moonring.native.rewards"
local row_words = require "moonring.rewards.row_words"
local system = require "moonring.native.system"

---@class moonring.reward_file
local file = {}

local CODES = { raised = "ABORTED", deadline = "DEADLINE_EXCEEDED", memory = "RESOURCE_EXHAUSTED" }

-- Formats the message for a call that failed or was stopped.
local function words_of(context, ended, message, frames)
  if ended == "deadline" then
    return ("it took longer than reward_timeout: %g seconds%s"):format(context.timeout, frames)
  end
  return ended == "memory" and message or message .. frames
end

local function say_lines(context, path, state)
  for _, line in ipairs(state:lines()) do context.say(path .. ": " .. line) end
end

-- The fields of a batch that the file's functions receive.
local function handed(batch)
  return { prompts = batch.prompts, messages = batch.messages, completions = batch.completions,
    prompt_ids = batch.prompt_ids, completion_ids = batch.completion_ids,
    completion_masks = batch.completion_masks, stopped = batch.stopped, columns = batch.columns,
    rows = batch.rows }
end

-- Raises an error about an invalid return value of a reward function.
local function refuse(scorer, batch, count, problem)
  if problem.row > 0 then
    row_words.fail(scorer, batch, problem.row, "got ", problem.got,
      ", expected a finite number, or nil where there is nothing to say")
  elseif problem.got then
    row_words.fail(scorer, batch, 0, "got ", problem.got, ", expected a list of ", count,
      " numbers, one a completion")
  end
  row_words.fail(scorer, batch, 0, "got ", problem.values, " values for ", count,
    " completions; expected one each, false where there is nothing to say")
end

local function scorer_of(context, path, state, index, name)
  local scorer = { name = name, place = path }
  function scorer.score(batch, count)
    local ok, values, problem, frames = state:call(context.timeout, "call",
      { index, handed(batch), count })
    say_lines(context, path, state)
    if not ok then
      local ended, message = values, problem
      local _, row = state:call(1, "row")
      row_words.raise(CODES[ended], scorer, batch, tonumber(row) or 0,
        words_of(context, ended, errors.shown(message), frames))
    end
    if not values then refuse(scorer, batch, count, problem) end
    return values
  end
  function scorer.close() state:close() end
  return scorer
end

--- Loads a file and returns its functions.
---@param spec moonring.RewardSpec
---@param context table options from rewards.open
---@return moonring.Scorer[]
function file.open(spec, context)
  local path = context.path(spec.path)
  local read, text = pcall(system.read, path)
  if not read then errors.prefix(text, spec.where, ": ") end
  local made, state = pcall(native.own_state, { module = "moonring.rewards.inside",
    memory = math.floor(context.memory_mib * 2 ^ 20), memory_limit = "reward_memory_mib" })
  if not made then
    errors.fail(spec.where, ": ", path, ": no room for a Lua state in reward_memory_mib: ",
      context.memory_mib, ": ", errors.words(state))
  end
  local folder = path:match "^(.*)/[^/]*$" or "."
  local ok, names, message, frames = state:call(context.timeout, "load",
    { text, path, folder })
  say_lines(context, path, state)
  if not ok then
    local ended = names
    state:close()
    errors.fail(spec.where, ": ", ended == "raised" and "" or path .. ": ",
      words_of(context, ended, errors.shown(message), frames))
  end
  local scorers = {}
  for i, name in ipairs(names) do
    scorers[i] = scorer_of(context, path, state, i, name)
    scorers[i].is_named = true
  end
  return scorers
end

return file
