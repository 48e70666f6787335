--- Rounds of local steps (local_steps and its outer_ keys): each sp group makes optimizer steps of
-- its own, on its share of the batch and divided by its own count, and the groups come together at
-- a round's end (trainer/outer_steps.h has the equations). The run is evaluated and saved by the
-- common point, the same on all groups; a checkpoint holds it, and each group's own weights and
-- optimizer beside it. With the keys at their defaults there are no rounds: a step is one over all
-- ranks.
local errors = require "moonring.base.errors"
local stages = require "moonring.choices.stages"
local trainer = require "moonring.native.trainer"

---@class moonring.rounds
local rounds = {}

---@class moonring.RoundsOptions
---@field mesh moonring.Mesh
---@field states moonring.States whose groups are apart
---@field total integer steps of the run, the last of which ends a round

---@class moonring.Rounds
---@field mesh moonring.Mesh
---@field outer moonring.OuterSteps
---@field steps integer of a round
---@field total integer
---@field inner integer steps that were made since the last common point
local Rounds = {}
Rounds.__index = Rounds

--- Whether a configuration's groups make steps of their own.
---@param c moonring.Configuration
---@return boolean
function rounds.wanted(c)
  return c.local_steps > 1 or c.outer_momentum > 0 or c.outer_learning_rate ~= 1 or c.outer_overlap
end

--- Numbers that are held beside each weight that learns.
---@param c moonring.Configuration
---@return integer
function rounds.numbers(c)
  if not rounds.wanted(c) then return 0 end
  return 1 + (c.outer_momentum > 0 and 1 or 0) + (c.outer_overlap and 1 or 0)
end

local KEY = "local_steps: "

-- Keys that act on all ranks together, or keep a state that groups would have different ones of:
-- what each would have to be.
local function refused(c)
  if c.zero_stage > 0 and c.zero_group ~= "sp" then
    return "zero_group: wanted sp with zero_stage " .. c.zero_stage .. " (each sp group has states "
      .. "of its own), got " .. c.zero_group
  end
  if c.expert_parallel_size > 1 then
    return "expert_parallel_size: wanted 1, got " .. c.expert_parallel_size
  end
  if c.spike_clip then return "spike_clip: it keeps one history of norms, groups have their own" end
  if c.use_badam and c.badam_mode == "layer" then
    return "badam_mode: layer makes its optimizer anew in each turn"
  end
  if type(c.optim) == "string" and c.optim:find "^schedule_free" then
    return "optim: " .. c.optim .. " has an average of its own in the weights' place"
  end
end

--- Refuses keys that do not go together with rounds.
---@param c moonring.Configuration
function rounds.check(c)
  if c.outer_nesterov and c.outer_momentum == 0 then
    errors.fail "outer_nesterov: wanted an outer_momentum above 0 beside it"
  end
  if c.outer_momentum >= 1 then
    errors.fail("outer_momentum: wanted less than 1, got ", c.outer_momentum)
  end
  if c.outer_learning_rate == 0 then
    errors.fail "outer_learning_rate: wanted more than 0, got 0"
  end
  if not rounds.wanted(c) then
    if not c.outer_momentum_clip then return end
    errors.fail "outer_momentum_clip: wanted local_steps above 1, or an outer_momentum, beside it"
  end
  local why = refused(c)
  if why then errors.fail(KEY, "it does not go with ", why) end
  -- Groups of examples lie across the sp groups.
  if stages.of(c).group(c, 1) then
    errors.fail(KEY, "a loss with a term over the examples of all ranks (stage: kto, "
      .. "moe_aux_loss_coef) cannot be divided group by group")
  end
end

--- Refuses an objective that sees, or remembers, the whole step.
---@param c moonring.Configuration
---@param objective moonring.Objective
function rounds.check_objective(c, objective)
  if not rounds.wanted(c) then return end
  if objective.survey then
    errors.fail(KEY, "an objective that surveys the whole step cannot be divided group by group")
  end
  if objective.state then
    errors.fail(KEY, "an objective with a state would have another one on each group")
  end
end

--- The rounds of a run; nil where a step is one over all ranks. Collective over all ranks.
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

--- A line for the log; nil where there are no rounds.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@return string?
function rounds.note(c, mesh)
  if not rounds.wanted(c) then return nil end
  return ("local_steps: %d: each of %d sp groups makes so many steps of its own between common "
    .. "points; what is evaluated and saved is the last common point"):format(c.local_steps,
    mesh:dp_size())
end

--- What all groups make of a step's norms, or of the failure of one of them. The norm is the root
--- of the mean of the squares of those of the groups that have a gradient. Collective over all
--- ranks.
---@param norm? number of this group's gradient, where it has one
---@param why? string what is wrong with that gradient
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

--- Counts a step that the groups have made, and ends the round where it is full, or the run's last.
--- The weights are to be published afterwards. Collective over all ranks.
---@param k? integer the step's number
function Rounds:made(k)
  self.inner = self.inner + 1
  if self.inner >= self.steps then close_round(self) end
  if k and k >= self.total then self:finish() end
end

--- Ends a round that has begun, and waits for what travels: the common point has all that was
--- learnt. Gives whether weights were written, and are to be published. Collective over all ranks.
---@return boolean
function Rounds:finish()
  local begun = self.inner > 0
  if begun then close_round(self) end
  return self.outer:finish() or begun
end

--- Puts the common point into the weights' place, or each group's own weights back. Gives whether
--- weights were written, and are to be published.
---@param common boolean
---@return boolean
function Rounds:show(common)
  if common and self.inner == 0 then return false end -- they are the common point
  return self.outer:show_common(common)
end

--- This rank's group, from 0, and how many there are.
---@return integer group
---@return integer groups
function Rounds:place() return self.mesh:dp_rank(), self.mesh:dp_size() end

--- What a checkpoint holds beside the tensors (saved_state.lua).
---@return table
function Rounds:state() return { inner = self.inner } end

--- Goes on from what a checkpoint held.
---@param state table what state() gave
function Rounds:load_state(state) self.inner = state.inner end

return rounds
