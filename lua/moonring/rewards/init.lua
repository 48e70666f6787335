--- Rewards of completions: opens the functions named by `reward_funcs`, calls them on batches, and
-- checks the results. Other modules: choices/reward_specs.lua (parses reward_funcs), file.lua
-- (functions of a Lua file in a separate Lua state, where inside.lua and returned.lua run),
-- built_in.lua (format, exact, length, json), reward_model.lua (a model trained by stage rm),
-- external.lua (a program, an HTTP service), python.lua (functions of a Python file), program.lua
-- (their processes), prompt_forms.lua (prompts as messages), row_words.lua (messages about rows).
--
-- A failed reward is returned as a value, not raised as an error, so that all ranks can be informed
-- (rewards.raise_together) before any of them updates weights.
local built_in = require "moonring.rewards.built_in"
local errors = require "moonring.base.errors"
local external = require "moonring.rewards.external"
local file = require "moonring.rewards.file"
local options = require "moonring.base.options"
local python = require "moonring.rewards.python"
local reward_model = require "moonring.rewards.reward_model"
local row_words = require "moonring.rewards.row_words"
local specs = require "moonring.choices.reward_specs"
local system = require "moonring.native.system"
local terminal = require "moonring.base.terminal"

---@class moonring.rewards
local rewards = {}

--- Options of rewards.open.
---@class moonring.RewardOptions
---@field folder? string base of relative paths; default: the working directory
---@field timeout? number time limit of a call in seconds; default 60
---@field memory_mib? number memory limit of a file's Lua state in MiB; default 1024
---@field say? fun(line: string) receives output of rewards; default: print
---@field tokenizer? moonring.Tokenizer the policy's; a reward model must have the same one
---@field precision? string precision of a reward model, as for model.load; default "fp32"
---@field device? "cpu" | "cuda" device of a reward model; default "cpu"
--- `micro_batch_tokens`: maximum tokens of a reward model's forward; a longer row is processed
--- alone. Default 8192.
---@field micro_batch_tokens? integer

--- The scores of one reward function.
---@class moonring.RewardScores
---@field name string
---@field values table<integer, number> by row, from 1; nil where it has no score
---@field seconds number duration of the call

--- The internal interface of one reward function.
---@class moonring.Scorer
---@field name string
---@field place string its source for messages: file, program or address; "" for built-in ones
---@field score fun(batch: moonring.RewardBatch, count: integer): (number | false)[]
---@field close? fun()

---@class moonring.Rewards
---@field scorers moonring.Scorer[]
local Rewards = {}
Rewards.__index = Rewards

local OPTIONS = { folder = "string?", timeout = "number?", memory_mib = "number?",
  say = "function?", tokenizer = "any?", precision = "string?", device = "string?",
  micro_batch_tokens = "number?" }
local BATCH = { prompts = "table", messages = "table?", completions = "table",
  prompt_ids = "table?", completion_ids = "table?", completion_masks = "table?",
  stopped = "table?", columns = "table?", rows = "table?" }

local OPEN = { file = file.open, model = reward_model.open, command = external.command,
  url = external.url, python = python.open }
for kind, open in pairs(built_in) do OPEN[kind] = open end

-- Makes default names unique by adding suffixes. Two equal names that the user set are an error.
local function name_apart(scorers)
  local taken = {}
  for _, scorer in ipairs(scorers) do
    if scorer.is_named and taken[scorer.name] then
      errors.fail("reward_funcs: two rewards are named '", scorer.name, "'")
    end
    if scorer.is_named then taken[scorer.name] = true end
  end
  for _, scorer in ipairs(scorers) do
    local name, number = scorer.name, 1
    while not scorer.is_named and taken[name] do
      number = number + 1
      name = scorer.name .. "_" .. number
    end
    scorer.name, taken[name] = name, true
  end
end

local function settled(given)
  local context = { folder = given.folder, timeout = given.timeout or 60,
    memory_mib = given.memory_mib or 1024, tokenizer = given.tokenizer,
    precision = given.precision or "fp32", device = given.device or "cpu",
    micro_batch_tokens = given.micro_batch_tokens or 8192, say = given.say or terminal.print }
  function context.path(path) return specs.path(path, given.folder) end
  return context
end

--- Opens reward functions: reads files, loads models, starts programs. Under --sandbox, functions
--- from files are confined, and programs and services are refused. Errors: INVALID_ARGUMENT for an
--- invalid value; NOT_FOUND; PERMISSION_DENIED under --sandbox.
---@param given string | table the value of reward_funcs: docs/rewards.md
---@param how? moonring.RewardOptions
---@return moonring.Rewards
function rewards.open(given, how)
  local context = settled(options.check("rewards.open", how, OPTIONS))
  local self = setmetatable({ scorers = {} }, Rewards)
  local ok, why = pcall(function()
    for _, spec in ipairs(specs.read(given)) do
      for _, scorer in ipairs(OPEN[spec.kind](spec, context)) do
        self.scorers[#self.scorers + 1] = scorer
      end
    end
    name_apart(self.scorers)
  end)
  if ok then return self end
  self:close()
  error(why, 0)
end

--- Raises the same error on all ranks if rewards failed on any rank: that of the first such rank.
--- Collective over all ranks.
---@param mesh moonring.Mesh
---@param why? moonring.Error this rank's failure, as `score` returns it
function rewards.raise_together(mesh, why)
  for rank, text in ipairs(mesh:gather(why and errors.encode(why) or "")) do
    if text ~= "" then
      if mesh:size() == 1 then error(errors.decode(text), 0) end
      errors.prefix(errors.decode(text), "rank ", rank - 1, ": ")
    end
  end
end

--- Names of the reward functions, in the order of reward_weights.
---@return string[]
function Rewards:names()
  local names = {}
  for i, scorer in ipairs(self.scorers) do names[i] = scorer.name end
  return names
end

local function check_batch(batch)
  options.check("Rewards:score", batch, BATCH)
  local count = #batch.completions
  for name in pairs(BATCH) do
    local list = batch[name]
    if list and name ~= "columns" and #list ~= count then
      options.refuse("Rewards:score", name, ": ", #list, " items for ", count, " completions")
    end
  end
  return count
end

-- Checks that each value is a finite number or false, since external programs may return anything.
local function check_values(scorer, batch, values, count)
  for i = 1, count do
    local value = values[i]
    local is_finite = type(value) == "number" and value == value and math.abs(value) < math.huge
    if value ~= false and not is_finite then
      row_words.fail(scorer, batch, i, "got ", tostring(value),
        ", expected a finite number, or nothing")
    end
  end
end

--- Scores a batch with all functions. It is not collective: each rank scores its own completions.
--- Errors: INVALID_ARGUMENT for an invalid batch; CANCELLED. If a reward fails, its error is
--- returned instead of raised.
---@param batch moonring.RewardBatch prompts and completions are required, other fields optional
---@return moonring.RewardScores[]? scores nil if a reward has failed
---@return moonring.Error? why the failure: "CODE: reward 'NAME' ..: row ..: got .., expected .."
function Rewards:score(batch)
  local count, scores = check_batch(batch), {}
  for i, scorer in ipairs(self.scorers) do
    local began = system.clock()
    local ok, values = pcall(function()
      local values = scorer.score(batch, count)
      check_values(scorer, batch, values, count)
      return values
    end)
    if not ok and errors.is(values, "CANCELLED") then error(values, 0) end
    if not ok then return nil, values end
    local kept = {}
    for row = 1, count do kept[row] = values[row] or nil end
    scores[i] = { name = scorer.name, values = kept, seconds = system.clock() - began }
  end
  return scores
end

--- Closes Lua states, models and programs. May be called twice.
function Rewards:close()
  for _, scorer in ipairs(self.scorers) do
    if scorer.close then scorer.close() end
  end
  self.scorers = {}
end

return rewards
