--- Rewards from functions of a Python file, as TRL's trainers take them. One Python process per
-- file runs them (lua/rewards/python_functions.py describes the protocol).
local errors = require "moonring.base.errors"
local external = require "moonring.rewards.external"
local native = require "moonring.native.rewards"
local program = require "moonring.rewards.program"
local prompt_forms = require "moonring.rewards.prompt_forms"
local system = require "moonring.native.system"

---@class moonring.python_rewards
local python = {}

-- The columns of one row of a batch.
local function row_of(batch, i)
  local row = {}
  for name, list in pairs(batch.columns or {}) do row[name] = list[i] end
  return row
end

-- A question for one function. A conversation's prompt is a list of messages and its completion a
-- list with the assistant's message; otherwise both are texts.
local function question(name, batch, count)
  local prompts, completions, ids = {}, {}, {}
  for i = 1, count do
    local messages = batch.messages and batch.messages[i]
    local text = batch.completions[i]
    prompts[i] = messages or prompt_forms.text(row_of(batch, i)) or batch.prompts[i]
    completions[i] = messages and { { role = "assistant", content = text } } or text
    ids[i] = batch.completion_ids and batch.completion_ids[i] or system.null
  end
  local asked = { ["function"] = name, prompts = prompts, completions = completions,
    completion_ids = ids, columns = {} }
  for column, list in pairs(batch.columns or {}) do
    asked.columns[column] = external.filled(list, count)
  end
  return system.json_encode(asked)
end

-- The names of the functions, as the process answers. Errors: those of loading the file.
local function names_of(spec, path, ask)
  local loader = { name = path, place = "" }
  local ok, text = pcall(ask, system.json_encode { open = true }, loader, {})
  if not ok then errors.fail(spec.where, ": ", errors.words(text)) end
  local answer = system.json_decode(text, path)
  if answer.error then errors.fail(spec.where, ": ", path, ": ", answer.error) end
  return answer.functions
end

--- Loads a file and returns its functions: those that `functions` names, or all public ones with a
--- parameter `completions` or `completion_ids`.
---@param spec moonring.RewardSpec
---@param context table options from rewards.open
---@return moonring.Scorer[]
function python.open(spec, context)
  program.refuse_confined(spec, "starts no program")
  local path = context.path(spec.path)
  if not system.exists(path) then
    errors.raise("NOT_FOUND", spec.where, ": no file '", path, "'")
  end
  local interpreter = spec.interpreter or system.environment "MOONRING_PYTHON" or "python3"
  local command = { interpreter, native.python_functions(), path, unpack(spec.functions or {}) }
  local started, ask, stop = pcall(program.open, spec, context, command, path)
  if not started then
    error(errors.with(ask, "; functions of a .py file need Python 3: MOONRING_PYTHON or the option "
      .. "interpreter is its path"), 0)
  end
  local named, names = pcall(names_of, spec, path, ask)
  if not named then
    stop()
    error(names, 0)
  end
  local scorers = {}
  for i, name in ipairs(names) do
    local scorer = { name = name, place = path, close = stop }
    function scorer.score(batch, count)
      return external.answer_of(scorer, batch, count, ask(question(name, batch, count), scorer,
        batch))
    end
    scorers[i] = scorer
  end
  return scorers
end

return python
