--- The table of training stages, one file each in this folder. The table of a stage defines
-- everything that is specific to it. Other modules (run, checks, plan, model) read these fields:
--   name          the value of the key `stage`
--   about         one line for `moonring help train`
--   reads         which rows of a data set it reads, see data/description/stage.h: texts ("pt"),
--                 conversations ("sft"), pairs ("dpo"), judged answers ("kto"), prompts to complete
--                 ("prompts")
--   documents     documents per example in one forward
--   shares        whether documents can share a common prefix (share_prefixes); default false
--   drops         whether dropout is active in training
--   balances      how the load-balancing losses (moe_aux_loss_coef), one per group of
--                 per_device_train_batch_size examples, are combined: "sum", "mean"; nil: not used
--   head          "logits": the loss uses the model's head; "value": a value head
--   objective(c, policy)   creates the objective (objective.lua)
--   compares(c)   whether the loss needs a reference model
--   group(c, dp)  number of examples that share a loss term which is not a sum over them; or nil
--   depends(c)    further settings that stored reference log-probs depend on: key -> text or number
--   rollouts      for stages that generate their examples. scores(c, settings): which log-probs of
--                 completions are needed before the first step (scoring.lua).
--                 examples(completions, document): the examples of a step
--   check(c)      refuses incompatible keys of the stage
local errors = require "moonring.base.errors"
local options = require "moonring.base.options"
local custom_pieces = require "moonring.choices.custom_pieces"

---@class moonring.Stage
---@field name string
---@field about string
---@field reads "pt" | "sft" | "dpo" | "kto" | "prompts"
---@field documents integer
---@field shares? boolean
---@field drops boolean
---@field balances? "sum" | "mean"
---@field head "logits" | "value"
---@field objective fun(c: moonring.Configuration, policy: moonring.Model): moonring.Objective
---@field compares fun(c: moonring.Configuration): boolean
---@field group fun(c: moonring.Configuration, dp: integer): integer?
---@field depends fun(c: moonring.Configuration): table<string, string | number>
---@field rollouts? moonring.StageRollouts
---@field check fun(c: moonring.Configuration)

---@class moonring.StageRollouts
---@field scores fun(c: moonring.Configuration, of: moonring.RolloutSettings): moonring.ScoringWish?
---@field examples fun(list: moonring.Completion[], document: function): table[], table[]

---@class moonring.stages
local stages = {}

local ROWS = {
  require "moonring.choices.stages.pt",
  require "moonring.choices.stages.sft",
  require "moonring.choices.stages.rm",
  require "moonring.choices.stages.dpo",
  require "moonring.choices.stages.kto",
  require "moonring.choices.stages.grpo",
  require "moonring.choices.stages.rloo",
  require "moonring.choices.stages.online_dpo",
}

local FIELDS = { name = "string", about = "string", reads = "string", documents = "number",
  shares = "boolean?", drops = "boolean",
  balances = "string?", head = "string", objective = "function", compares = "function",
  group = "function", depends = "function", check = "function", rollouts = "table?" }

local by_name = {}
for _, stage in ipairs(ROWS) do by_name[stage.name] = options.check("stage", stage, FIELDS) end

--- The names of all stages, in the usual order of training.
---@return string[]
function stages.names()
  local names = {}
  for i, stage in ipairs(ROWS) do names[i] = stage.name end
  return names
end

--- One line about each stage, in the same order.
---@return { name: string, about: string }[]
function stages.abouts()
  local lines = {}
  for i, stage in ipairs(ROWS) do lines[i] = { name = stage.name, about = stage.about } end
  return lines
end

--- The stage of a configuration.
---@param c moonring.Configuration
---@return moonring.Stage
function stages.of(c) return by_name[c.stage] end

--- The objective of a configuration: its stage's, or a custom one from a script or the key
--- `objective`.
---@param c moonring.Configuration
---@param model moonring.Model
---@return moonring.Objective
function stages.objective(c, model)
  local own = custom_pieces.of(c, "objective")
  if not own then return stages.of(c).objective(c, model) end
  if type(own.value) ~= "function" then return own.value end
  local ok, made = pcall(own.value, c, model)
  if not ok then errors.prefix(made, "objective: ", own.place, ": ") end
  if type(made) ~= "table" then
    custom_pieces.refuse(own, "objective", "the function returned ",
      made == nil and "nothing (is a `return` missing?)" or "a " .. type(made),
      ", expected a table with level, count and loss")
  end
  return made
end

--- Whether the loss of a configuration needs a reference model. A custom objective that is a
--- function is created with the model: until then it may need one.
---@param c moonring.Configuration
---@return boolean
function stages.compares(c)
  local own = custom_pieces.of(c, "objective")
  if not own then return stages.of(c).compares(c) end
  return type(own.value) == "function" or own.value.needs_reference ~= nil
end

return stages
