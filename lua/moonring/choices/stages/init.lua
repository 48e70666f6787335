--- The stages of training: one file each in this folder, one row here. A stage's table is all that
-- Moonring knows of it; the run, the checks, the plan and the model room read it by these names:
--   name          as the key `stage` has it
--   reads         which rows it reads of a data set, by data/description/stage.h: texts ("pt"),
--                 conversations ("sft"), pairs ("dpo"), judged answers ("kto"), prompts to
--                 complete ("prompts")
--   documents     documents of an example that go through one forward
--   shares        whether these may share what they begin with (share_prefixes); false where absent
--   drops         whether dropout acts in training
--   balances      how moe_aux_loss_coef's loss joins, one a group of per_device_train_batch_size
--                 examples: their "sum" or their "mean"; nil: not at all
--   head          "logits": the loss is of the model's head; "value": of a value head
--   objective(c, policy)   what a step counts and sums (objective.lua)
--   compares(c)   whether the loss has a reference model
--   group(c, dp)  examples over which the loss has a term that is no sum over examples, or nil
--   depends(c)    what kept log-probs of the reference depend on besides: key -> text or number
--   rollouts      of stages whose examples are generated, nil of others: scores(c, settings), what
--                 is to be known of completions before the first step (scoring.lua), and
--                 examples(completions, document), what a step is made of
--   check(c)      ends the run where the stage's keys do not go together
local errors = require "moonring.base.errors"
local options = require "moonring.base.options"
local own_pieces = require "moonring.choices.custom_pieces"

---@class moonring.Stage
---@field name string
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

local FIELDS = { name = "string", reads = "string", documents = "number",
  shares = "boolean?", drops = "boolean",
  balances = "string?", head = "string", objective = "function", compares = "function",
  group = "function", depends = "function", check = "function", rollouts = "table?" }

local by_name = {}
for _, stage in ipairs(ROWS) do by_name[stage.name] = options.check("stage", stage, FIELDS) end

--- The names of all, in the order in which a model usually goes through them.
---@return string[]
function stages.names()
  local names = {}
  for i, stage in ipairs(ROWS) do names[i] = stage.name end
  return names
end

--- The stage of a configuration.
---@param c moonring.Configuration
---@return moonring.Stage
function stages.of(c) return by_name[c.stage] end

--- The objective of a configuration: its stage's, or an own one that a script or the key
--- `objective` brings.
---@param c moonring.Configuration
---@param model moonring.Model
---@return moonring.Objective
function stages.objective(c, model)
  local own = own_pieces.of(c, "objective")
  if not own then return stages.of(c).objective(c, model) end
  if type(own.value) ~= "function" then return own.value end
  local ok, made = pcall(own.value, c, model)
  if not ok then errors.prefix(made, "objective: ", own.place, ": ") end
  return made
end

return stages
