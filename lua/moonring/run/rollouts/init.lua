--- Rollouts make the steps of stages that train on rewards. A rollout takes the next prompts,
-- samples several completions of each with the current weights, lets reward functions score them,
-- and provides the examples of one or more optimizer steps. Sampling depends only on the seed and
-- the number of earlier prompts, not on ranks. A checkpoint includes the rollout in progress.
local completions = require "moonring.run.rollouts.completions"
local configured_template = require "moonring.data.configured_template"
local batching = require "moonring.choices.batching"
local data = require "moonring.data"
local errors = require "moonring.base.errors"
local masks = require "moonring.run.rollouts.completion_mask"
local groups_of = require "moonring.run.rollouts.groups"
local rollout_hooks = require "moonring.choices.rollout_hooks"
local scoring = require "moonring.run.rollouts.scoring"
local settings = require "moonring.choices.rollout_settings"
local stages = require "moonring.choices.stages"
local system = require "moonring.native.system"
local times = require "moonring.base.times"
local telling = require "moonring.run.rollouts.telling"
local valuing = require "moonring.run.rollouts.valuing"

---@class moonring.rollouts
local rollouts = {}

--- The rollout in progress.
---@class moonring.Rollout
---@field number integer from 0
---@field epoch integer
---@field last boolean whether it is the last of the epoch
---@field first integer index of its first step in the epoch
---@field prompts moonring.RolloutRow[]
---@field list moonring.Completion[] by prompt, then answer

---@class moonring.Rollouts
---@field run moonring.Run
---@field of moonring.RolloutSettings
---@field stage moonring.Stage
---@field template moonring.Template encodes messages that continue a completion
---@field prompts moonring.Steps
---@field rollout? moonring.Rollout
---@field made integer steps of the rollout made so far
---@field drawn integer prompts taken so far
---@field records moonring.Completion[][] of the current step's examples
---@field metrics table<string, number[]> of the rollout, until they are logged with a step
local Rollouts = {}
Rollouts.__index = Rollouts

--- The rollouts of a run. Errors: INVALID_ARGUMENT if batch sizes are not multiples of one another.
---@param run moonring.Run with prompts as its data
---@param prompts moonring.Steps each step has the prompts of one rollout
---@return moonring.Rollouts
function rollouts.new(run, prompts)
  local c = run.config
  local self = setmetatable({ run = run, of = settings.of(c, run.mesh:dp_size()),
    stage = stages.of(c), prompts = prompts, made = 0, drawn = 0, records = {}, metrics = {} },
    Rollouts)
  self.template = data.template(configured_template.of(c), run.tokenizer, c.default_system)
  self.of.sampling.stop_ids = self.template:stop_ids()
  return self
end

-- The prompts of a step. The function `number` maps a prompt's index in the step to its number.
local function prompts_of(step, number)
  local taken, examples = {}, step:examples()
  for i, prompt in ipairs(step:prompts()) do
    taken[i] = { ids = prompt.ids, columns = system.json_decode(prompt.row, "a prompt's row"),
      example = examples[i], number = number(i) }
  end
  return taken
end

--- Takes the next prompts from the data, with their numbers; nil after the last.
---@return moonring.RolloutRow[]? prompts
---@return moonring.Step? step from which they were read
function Rollouts:take()
  local step = self.prompts:next()
  if not step then return nil end
  local taken = prompts_of(step, function(i) return self.drawn + i - 1 end)
  self.drawn = self.drawn + #taken
  return taken, step
end

--- Samples num_generations completions of each prompt with the current weights. Collective over
--- all ranks. Errors: those of the hooks, on every rank.
---@param prompts moonring.RolloutRow[]
---@param given? moonring.RolloutHooks functions that change logits or continue completions;
---   default: those of rollout_hooks
---@return moonring.Completion[][] by prompt
function Rollouts:complete(prompts, given)
  local wanted = given and rollout_hooks.check("rollouts:complete", given)
    or not given and rollout_hooks.of(self.run.config) or nil
  return completions.sample(self, prompts, self.of.sampling, wanted)
end

-- The completions that one step of a rollout trains on. All completions of a prompt are in one
-- step.
local function share_of(self, rollout, share)
  local size = math.ceil(#rollout.prompts / self.of.shares) * self.of.generations
  local list = {}
  for i = share * size + 1, math.min((share + 1) * size, #rollout.list) do
    list[#list + 1] = rollout.list[i]
  end
  return list
end

-- A prompt and its completion as a document whose targets are the completion's sampled tokens.
local function document(rollout, completion)
  local prompt = rollout.prompts[completion.prompt].ids
  local ids, labels = {}, {}
  for i, id in ipairs(prompt) do ids[i], labels[i] = id, -100 end
  for i, id in ipairs(completion.ids) do
    ids[#prompt + i] = id
    labels[#prompt + i] = masks.is_sampled(completion, i) and id or -100
  end
  return { ids = ids, labels = labels }
end

-- Makes the step that trains on share number `share` of the rollout's completions. Also returns the
-- completions from which its examples were made.
local function make_step(self, rollout, share, made)
  local list = share_of(self, rollout, share)
  local examples, records = self.stage.rollouts.examples(list, function(each)
    return document(rollout, each)
  end)
  local c = self.run.config
  local step = data.step { examples = examples, mesh = self.run.mesh,
    micro_batch_tokens = batching.micro_batch_tokens(c), epoch = rollout.epoch,
    step = rollout.first + made, last = rollout.last and made == self.of.steps - 1,
    share_prefixes = c.share_prefixes }
  return step, records
end

-- Computes log-probs before the rollout's first step, if the loss needs them.
local function score(self, rollout)
  local run = self.run
  local wish = self.stage.rollouts.scores(run.config, self.of)
  if not wish then return end
  for share = 0, self.of.shares - 1 do
    local step, records = make_step(self, rollout, share, 0)
    self.records = records
    scoring.score(run, step, records, wish)
    if wish.entropy then scoring.mark(run, records) end
  end
end

local function add(measured, more)
  for name, pair in pairs(more) do measured[name] = pair end
end

-- Makes the next rollout; nil after the last prompt.
local function roll(self)
  local run, began = self.run, system.clock()
  local prompts, taken = self:take()
  if not prompts then return nil end
  run.shown:learn() -- the trained weights, not their averages
  local took = { generate = 0, judge = 0 }
  local before = self.rollout
  local rollout = { number = before and before.number + 1 or 0, epoch = taken:epoch(),
    last = taken:last(), first = taken:index() * self.of.steps }
  local measured
  if run.own.rollout then
    rollout.prompts = prompts
    rollout.list, measured = groups_of.own(self, prompts)
    score(self, rollout)
  else
    rollout.prompts, rollout.list, measured = groups_of.select(self, prompts, took)
    score(self, rollout)
    local valued = valuing.value(run, self.of, rollout.list) -- rloo: including the divergence
    add(measured, valued.metrics)
    telling.unrewarded(run, rollout, valued.unrewarded)
  end
  add(measured, telling.lengths(rollout.list))
  telling.completions(run, rollout.number, rollout.prompts, rollout.list)
  measured["runtime/rollouts"] = { took.generate, 1 }
  measured["runtime/rewards"] = { took.judge, 1 }
  measured["runtime/scores"] = { system.clock() - began - took.generate - took.judge, 1 }
  self.metrics = measured
  return rollout
end

--- The next step, from the current rollout or a new one; nil after the last. Collective over all
--- ranks.
---@return moonring.Step?
function Rollouts:next()
  if not self.rollout or self.made == self.of.steps then
    local rollout = times.within(self.run.times, "rollouts", roll, self)
    if not rollout then return nil end
    self.rollout, self.made = rollout, 0
  end
  local step, records = make_step(self, self.rollout, self.made % self.of.shares, self.made)
  self.made, self.records = self.made + 1, records
  -- A share may be empty, because the last rollout of the data may have fewer prompts than steps.
  return #records > 0 and step or self:next()
end

--- The completions from which examples of the current step were made.
---@param places integer[] positions in the step, from 0
---@return moonring.Completion[]
function Rollouts:at(places)
  local found = {}
  for i, place in ipairs(places) do found[i] = self.records[place + 1] end
  return found
end

--- Returns the metrics of the rollout, and clears them: name -> { sum, count }.
---@return table<string, number[]>
function Rollouts:told()
  local measured = self.metrics
  self.metrics = {}
  return measured
end

--- The state for a checkpoint: the position in the prompts, and the rollout in progress.
---@return string
function Rollouts:save_state()
  local going_on = self.rollout and self.made < self.of.steps
  return system.json_encode { prompts = self.prompts:save_state(), turn = self.made,
    drawn = self.drawn, number = self.rollout and self.rollout.number or -1,
    rollout = going_on and self.rollout or nil }
end

--- Restores a state that save_state returned.
---@param text string
function Rollouts:load_state(text)
  local ok, state = pcall(system.json_decode, text, "the rollouts' state")
  if not ok or type(state) ~= "table" or not state.prompts then
    errors.fail("the checkpoint's data are no rollouts")
  end
  self.prompts:load_state(state.prompts)
  self.drawn, self.made = state.drawn, state.rollout and state.turn or self.of.steps
  self.rollout = state.rollout or { number = state.number }
end

--- Samples and scores completions of a data set's prompts, only to evaluate: nothing is trained.
--- Returns the metrics. Collective over all ranks.
---@param dataset moonring.Dataset
---@return table<string, number[]> name -> { sum, count }
function Rollouts:evaluate(dataset)
  local run, n, all = self.run, dataset:size(), {}
  local batch = run.config.per_device_eval_batch_size * run.mesh:dp_size()
  local steps = dataset:steps { mesh = run.mesh, batch = batch, shuffle = false,
    micro_batch_tokens = 2 ^ 40, total_steps = math.ceil(n / batch) }
  for step in function() return steps:next() end do
    -- The prompts get other numbers than all training prompts, so other random numbers.
    local prompts = prompts_of(step, function(i) return 2 ^ 40 + step:examples()[i] end)
    local groups = groups_of.judged(self, prompts, { generate = 0, judge = 0 })
    for _, each in ipairs(groups_of.flat(groups)) do all[#all + 1] = each end
  end
  local measured = telling.lengths(all)
  add(measured, valuing.value(run, self.of, all).metrics)
  return measured
end

return rollouts
