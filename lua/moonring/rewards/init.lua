--- Rewards: numbers for what a model has drawn to a prompt, from what `reward_funcs` names. They
-- are opened here, are handed batches, and what comes back is checked. The rest of the room:
-- specs.lua (what reward_funcs may say), file.lua (functions of a Lua file, in a Lua state of their
-- own; inside.lua and returned.lua run there), built_in.lua (format, exact, length, json),
-- reward_model.lua (a model that stage rm has trained), external.lua (a program, an HTTP service),
-- row_words.lua (how messages name a reward and a row).
--
-- A failure of a reward is a value, not an error, so that a rank can tell the others of it
-- (rewards.raise_together) before any of them updates.
local built_in = require "moonring.rewards.built_in"
local errors = require "moonring.base.errors"
local external = require "moonring.rewards.external"
local file = require "moonring.rewards.file"
local options = require "moonring.base.options"
local reward_model = require "moonring.rewards.reward_model"
local row_words = require "moonring.rewards.row_words"
local specs = require "moonring.choices.reward_specs"
local system = require "moonring.native.system"
local terminal = require "moonring.base.terminal"

---@class moonring.rewards
local rewards = {}

---@class moonring.RewardOptions
---@field folder? string where relative paths begin; the working directory where absent
---@field timeout? number seconds that a call may take; 60 where absent
---@field memory_mib? number MiB that a file's Lua state may take; 1024 where absent
---@field say? fun(line: string) takes what rewards print; print where absent
---@field tokenizer? moonring.Tokenizer the policy's, which a reward model must have too
---@field precision? string a reward model's, as model.load's; "fp32" where absent
---@field device? "cpu" | "cuda" where a reward model is; "cpu" where absent
--- of a reward model's forward at most, but for a longer row; 8192 where absent
---@field micro_batch_tokens? integer

--- What the numbers of one function are.
---@class moonring.RewardScores
---@field name string
---@field values table<integer, number> by row from 1; nil where it has nothing to say of a row
---@field seconds number that it took

--- One function behind the face of `rewards`.
---@class moonring.Scorer
---@field name string
---@field place string for messages: the file, the program, the address; "" of a built-in one
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
  prompt_ids = "table?", completion_ids = "table?", stopped = "table?", columns = "table?",
  rows = "table?" }

local OPEN = { file = file.open, model = reward_model.open, command = external.command,
  url = external.url }
for kind, open in pairs(built_in) do OPEN[kind] = open end

-- Names of their own where two have the same by default; two that were given are a mistake.
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

--- Opens what reward_funcs says: reads files, opens models, starts programs. Under --sandbox files
--- are confined, and programs and services are refused. Errors: INVALID_ARGUMENT for what cannot
--- be, NOT_FOUND, PERMISSION_DENIED under --sandbox.
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

--- Ends every rank's run where one's rewards have failed, with what the first such rank says.
--- Collective over all ranks.
---@param mesh moonring.Mesh
---@param why? string this rank's failure, as `score` returns it
function rewards.raise_together(mesh, why)
  for rank, words in ipairs(mesh:gather(why or "")) do
    if words ~= "" then
      if mesh:size() == 1 then error(words, 0) end
      errors.prefix(words, "rank ", rank - 1, ": ")
    end
  end
end

--- The names of the functions, in the order of reward_weights.
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

-- A number or false for each row: whatever came from elsewhere is looked at here too.
local function check_values(scorer, batch, values, count)
  for i = 1, count do
    local value = values[i]
    local is_finite = type(value) == "number" and value == value and math.abs(value) < math.huge
    if value ~= false and not is_finite then
      row_words.fail(scorer, batch, i, "got ", tostring(value),
        ", wanted a finite number, or nothing")
    end
  end
end

--- The numbers of every function for a batch. Not collective: a rank scores what it has drawn.
--- Errors: INVALID_ARGUMENT for a batch that is none; CANCELLED. What goes wrong in a reward is no
--- error.
---@param batch moonring.RewardBatch prompts and completions alone are needed by every function
---@return moonring.RewardScores[]? scores nil where a reward has failed
---@return string? why then: "CODE: reward 'NAME' ..: row ..: what came, what was wanted"
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
    if not ok then return nil, tostring(values) end
    local kept = {}
    for row = 1, count do kept[row] = values[row] or nil end
    scores[i] = { name = scorer.name, values = kept, seconds = system.clock() - began }
  end
  return scores
end

--- Ends what was opened: Lua states, models, programs. Twice is fine.
function Rewards:close()
  for _, scorer in ipairs(self.scorers) do
    if scorer.close then scorer.close() end
  end
  self.scorers = {}
end

return rewards
