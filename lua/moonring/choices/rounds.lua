--- Rounds of local steps (local SGD: local_steps and the outer_ keys). Each sp group makes
-- optimizer steps by itself, on its share of the batch, divided by the count of that share. At the
-- end of a round the groups synchronize (equations in trainer/outer_steps.h). The weights that all
-- groups share after it are the synchronization point; evaluations and saved models use them. A
-- checkpoint contains the synchronization point, and each group's own weights and optimizer state.
-- By default there are no rounds: all ranks make each step together.
local errors = require "moonring.base.errors"
local stages = require "moonring.choices.stages"
local trainer = require "moonring.native.trainer"

---@class moonring.rounds
local rounds = {}

---@class moonring.RoundsOptions
---@field mesh moonring.Mesh
---@field states moonring.States the states, separate for each sp group
---@field total integer steps of the run; the last one ends a round

---@class moonring.Rounds
---@field mesh moonring.Mesh
---@field outer moonring.OuterSteps
---@field steps integer per round
---@field total integer
---@field inner integer steps since the last synchronization
local Rounds = {}
Rounds.__index = Rounds

--- Whether a configuration has rounds of local steps.
---@param c moonring.Configuration
---@return boolean
function rounds.wanted(c)
  return c.local_steps > 1 or c.outer_momentum > 0 or c.outer_learning_rate ~= 1 or c.outer_overlap
end

--- The number of additional elements per trainable weight that rounds store.
---@param c moonring.Configuration
---@return integer
function rounds.numbers(c)
  if not rounds.wanted(c) then return 0 end
  return 1 + (c.outer_momentum > 0 and 1 or 0) + (c.outer_overlap and 1 or 0)
end

local KEY = "local_steps: "

-- Returns why rounds cannot be used, or nil: some keys act over all ranks, or have a state that
-- would differ between sp groups.
local function refused(c)
  if c.zero_stage > 0 and c.zero_group ~= "sp" then
    return "zero_group: expected sp with zero_stage " .. c.zero_stage .. " (each sp group has "
      .. "states of its own), got " .. c.zero_group
  end
  if c.expert_parallel_size > 1 then
    return "expert_parallel_size: expected 1, got " .. c.expert_parallel_size
  end
  if c.spike_clip then return "spike_clip: it keeps one history of norms for all groups" end
  if c.use_badam and c.badam_mode == "layer" then
    return "badam_mode: layer creates a new optimizer in each turn"
  end
  if type(c.optim) == "string" and c.optim:find "^schedule_free" then
    return "optim: " .. c.optim .. " stores an average in place of the weights"
  end
end

--- Refuses keys that are incompatible with rounds.
---@param c moonring.Configuration
function rounds.check(c)
  if c.outer_nesterov and c.outer_momentum == 0 then
    errors.fail "outer_nesterov: expected an outer_momentum above 0 beside it"
  end
  if c.outer_momentum >= 1 then
    errors.fail("outer_momentum: expected less than 1, got ", c.outer_momentum)
  end
  if c.outer_learning_rate == 0 then
    errors.fail "outer_learning_rate: expected more than 0, got 0"
  end
  if not rounds.wanted(c) then
    if not c.outer_momentum_clip then return end
    errors.fail "outer_momentum_clip: expected local_steps above 1, or an outer_momentum, beside it"
  end
  local why = refused(c)
  if why then errors.fail(KEY, "it does not go with ", why) end
  -- A group of examples that share a loss term would span several sp groups.
  if stages.of(c).group(c, 1) then
    errors.fail(KEY, "a loss with a term over the examples of all ranks (stage: kto, "
      .. "moe_aux_loss_coef) cannot be divided group by group")
  end
end

--- Refuses an objective that has a state, or a survey, which needs log-probs of the whole step.
---@param c moonring.Configuration
---@param objective moonring.Objective
function rounds.check_objective(c, objective)
  if not rounds.wanted(c) then return end
  if objective.survey then
    errors.fail(KEY, "an objective that surveys the whole step cannot be divided group by group")
  end
  if objective.state then
    errors.fail(KEY, "the state of an objective would differ between groups")
  end
end

--- The rounds of a run; nil if the configuration has none. Collective over all ranks.
---@param c moonring.Configuration
---@param given moonring.RoundsOptions
---@return moonring.Rounds?
function rounds.open(c, given)
  if not rounds.wanted(c) then return nil end
  local outer = trainer.outer_steps { mesh = given.mesh, states = given.states,
    learning_rate = c.outer_learning_rate, momentum = c.outer_momentum, nesterov = c.outer_nesterov,
    clip = c.outer_momentum_clip, overlap = c.outer_overlap }
  return setmetatable({ mesh = given.mesh, outer = outer, steps = c.local_steps,
    total = given.total, inner = 0 }, Rounds)
end

--- A log line about rounds; nil if there are none.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@return string?
function rounds.note(c, mesh)
  if not rounds.wanted(c) then return nil end
  return ("local_steps: %d: each of %d sp groups makes this many local steps between "
    .. "synchronizations; evaluation and saving use the last synchronization "
    .. "point"):format(c.local_steps, mesh:dp_size())
end

--- Combines the gradient norms of all groups: the root mean square over those that have a gradient.
--- If a group failed, all groups return its error. Collective over all ranks.
---@param norm? number of this group's gradient, where it has one
---@param why? string error of this group's gradient
---@return number? norm
---@return string? why
function Rounds:agree(norm, why)
  local mine = why and "?" .. tostring(why) or norm and ("%.17g"):format(norm) or ""
  local squares, groups = 0, 0
  for _, text in ipairs(self.mesh:gather(mine)) do
    if text:sub(1, 1) == "?" then return nil, text:sub(2) end
    if text ~= "" then squares, groups = squares + tonumber(text) ^ 2, groups + 1 end
  end
  return math.sqrt(squares / groups)
end

local function close_round(self)
  self.outer:end_round()
  self.inner = 0
end

--- Counts a completed step. Ends the round if it has all its steps or the run is over. The caller
--- must then copy the states' weights to the model (States:publish). Collective over all ranks.
---@param k? integer the step's number
function Rounds:made(k)
  self.inner = self.inner + 1
  if self.inner >= self.steps then close_round(self) end
  if k and k >= self.total then self:finish() end
end

--- Ends a round in progress and waits for pending all-reduces, so that the common weights include
--- all steps. Returns whether weights changed, so that States:publish must be called. Collective
--- over all ranks.
---@return boolean
function Rounds:finish()
  local begun = self.inner > 0
  if begun then close_round(self) end
  return self.outer:finish() or begun
end

--- Loads the weights of the synchronization point, or restores this group's. Returns whether
--- weights changed, so that States:publish must be called.
---@param common boolean
---@return boolean
function Rounds:show(common)
  if common and self.inner == 0 then return false end -- the weights are already synchronized
  return self.outer:show_common(common)
end

--- This rank's group, from 0, and the number of groups.
---@return integer group
---@return integer groups
function Rounds:place() return self.mesh:dp_rank(), self.mesh:dp_size() end

--- The state for a checkpoint; saved_state.lua stores the tensors separately.
---@return table
function Rounds:state() return { inner = self.inner } end

--- Restores the state from a checkpoint.
---@param state table from state()
function Rounds:load_state(state) self.inner = state.inner end

return rounds
