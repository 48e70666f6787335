--- Moonring, as scripts see it: `local moonring = require "moonring"`.
-- The cores' bindings (moonring.native.*) under their folders' names, joined by a few functions in Lua. What each offers is
-- described in lua/types.
local config = require "moonring.config"
local flags = require "moonring.config.flags"
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"

local moonring = {
  version = system.version(),
  scope = tensor.scope,
  no_grad = tensor.no_grad,
  tensor = tensor.tensor,
  system = system,
  comm = require "moonring.native.comm",
  attention = require "moonring.native.attention",
  model = require "moonring.model",
  data = require "moonring.data",
  objectives = require "moonring.native.objectives",
  trainer = require "moonring.native.trainer",
  safetensors = require "moonring.native.safetensors",
  config = config,
  options = require "moonring.config.options",
  checks = require "moonring.config.checks",
  agreement = require "moonring.config.agreement",
  objective = require "moonring.run.objective",
  reference = require "moonring.run.reference",
  resume = require "moonring.run.resume",
  router = require "moonring.run.router",
  runtime = require "moonring.run.engine",
  metrics = require "moonring.run.metrics",
  nonfinite = require "moonring.run.nonfinite",
  updates = require "moonring.run.updates",
  pace = require "moonring.run.pace",
  batch = require "moonring.run.batch",
  checkpoints = require "moonring.run.checkpoints",
  cat = tensor.cat,
  datasets = require "moonring.data.datasets",
  output_folder = require "moonring.run.output_folder",
  run = require "moonring.run",
  models = require "moonring.model.policy",
  vocabulary = require "moonring.data.vocabulary",
  jinja = require "moonring.data.jinja",
  stages = require "moonring.run.stages",
  configured_template = require "moonring.data.configured_template",
  templates = require "moonring.data.templates",
  probe = require "moonring.commands.probe",
  chat = require "moonring.commands.chat",
  inspect = require "moonring.commands.inspect",
  memory = require "moonring.plan.memory",
  memory_facts = require "moonring.plan.facts",
  machine = require "moonring.plan.machine",
  memory_check = require "moonring.plan.check",
  plan = require "moonring.plan",
  plan_text = require "moonring.plan.text",
  plan_tables = require "moonring.plan.tables",
  needle = require "moonring.commands.needle",
  help = require "moonring.commands.help",
  gpu = require "moonring.plan.gpu",
  journal = require "moonring.report.journal",
  memory_report = require "moonring.report.memory_report",
  flags = flags.read,
  required = flags.required,
  null = system.null,
}

--- Starts `ranks` (or `sp`) ranks of this very command where the process is not one already and -n did not say how many;
-- then this process only waits for them and ends with their exit code. `sp` must divide their number, whoever says it. `restarts`: how often
-- they are started again after a failure; a single rank too then has a process that waits for it.
function moonring.launch(sp, ranks, restarts)
  if sp < 1 then config.fail("sequence_parallel_size: wanted at least 1, got ", sp) end
  local launched = system.world_size()
  local given = launched > 0 and launched or system.requested_ranks()
  if given == 0 then given = ranks or sp end
  if given % sp ~= 0 then config.fail("sequence_parallel_size: ", sp, " does not divide the number of ranks, ", given) end
  restarts = restarts or 0
  if launched > 0 then
    if restarts > 0 then system.offer_restarts(restarts) end
  elseif given > 1 or restarts > 0 then
    system.launch(given)
  end
end

--- Steps with their number: `for step, k in moonring.count(steps) do`, k = 1, 2, ...; with `made` steps behind them, from there on.
function moonring.count(steps, made)
  local k = made or 0
  return function()
    k = k + 1
    return steps:next(), k
  end
end

return moonring
