--- Moonring, as scripts see it: `local moonring = require "moonring"`. Names, and nothing else:
-- native modules (moonring.native.*, described in lua/types), and Lua modules, each described where
-- it is written. Rooms: config, run, hub, model, data, rewards, plan, report, sandbox,
-- commands, prompt.
local autograd = require "moonring.base.autograd"
local creation = require "moonring.base.creation"
local flags = require "moonring.base.flags"
local operators = require "moonring.native.operators"
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"

return {
  version = system.version(),
  null = system.null,

  -- Native.
  attention = require "moonring.native.attention",
  comm = require "moonring.native.comm",
  mixing = require "moonring.native.mixing",
  objectives = require "moonring.native.objectives",
  safetensors = require "moonring.native.safetensors",
  system = system,
  trace = require "moonring.native.trace",
  trainer = require "moonring.native.trainer",
  scope = tensor.scope,
  no_grad = autograd.no_grad,
  tensor = tensor.tensor,

  -- Tensors: every operator, new ones, gradients.
  ops = operators.ops,
  operators = operators,
  autograd = autograd,
  nn = require "moonring.nn",
  cat = operators.ops.cat,
  zeros = creation.zeros,
  ones = creation.ones,
  full = creation.full,
  arange = creation.arange,
  rand = creation.rand,
  randn = creation.randn,

  -- What a script takes and what it is told.
  config = require "moonring.config",
  checks = require "moonring.run.checks",
  options = require "moonring.base.options",
  agreement = require "moonring.config.agreement",
  errors = require "moonring.base.errors",
  terminal = require "moonring.base.terminal",
  flags = flags.read,
  required = flags.required,

  -- Models and data.
  hub = require "moonring.hub",
  model = require "moonring.model",
  packing = require "moonring.model.packing",
  gguf_file = require "moonring.model.gguf_file",
  policy = require "moonring.model.policy",
  data = require "moonring.data",
  datasets = require "moonring.data.datasets",
  vocabulary = require "moonring.data.vocabulary",
  templates = require "moonring.data.templates",
  configured_template = require "moonring.data.configured_template",
  jinja = require "moonring.data.jinja",

  -- A run and its parts.
  run = require "moonring.run",
  launch = require "moonring.run.launch",
  count = require "moonring.run.count",
  stages = require "moonring.choices.stages",
  engine = require "moonring.run.engine",
  loss_scale = require "moonring.run.loss_scale",
  objective = require "moonring.choices.objective",
  batch = require "moonring.run.batch",
  masks = require "moonring.run.masks",
  metrics = require "moonring.base.metrics",
  noise = require "moonring.run.noise",
  router = require "moonring.run.router",
  advantages = require "moonring.run.rollouts.advantages",
  reference = require "moonring.run.reference",
  references = require "moonring.run.references",
  kept_reference = require "moonring.run.kept_reference",
  compute = require "moonring.choices.compute",
  strategies = require "moonring.choices.strategies",
  counts = require "moonring.choices.counts",
  optimizers = require "moonring.choices.optimizers",
  schedules = require "moonring.choices.schedules",
  optimizer = require("moonring.choices.custom_optimizer").new,
  updates = require "moonring.run.updates",
  checkpoints = require "moonring.run.checkpoint.checkpoints",
  resume = require "moonring.run.checkpoint.resume",
  prediction = require "moonring.run.prediction",
  preemption = require "moonring.run.preemption",
  pace = require "moonring.run.pace",
  times = require "moonring.base.times",
  rewards = require "moonring.rewards",
  rollouts = require "moonring.run.rollouts",
  output_folder = require "moonring.run.output_folder",
  nonfinite = require "moonring.run.nonfinite",

  -- Memory foretold.
  plan = require "moonring.plan",
  plan_text = require "moonring.plan.text",
  plan_tables = require "moonring.plan.tables",
  memory = require "moonring.plan.memory",
  memory_facts = require "moonring.plan.facts",
  memory_check = require "moonring.plan.check",
  machine = require "moonring.base.machine",
  gpu = require "moonring.plan.gpu",

  -- What is reported, and commands.
  journal = require "moonring.report.journal",
  memory_report = require "moonring.report.memory_report",
  phases = require "moonring.report.phases",
  report = require "moonring.report",
  help = require "moonring.commands.help",
  explain = require "moonring.commands.explain",
  inspect = require "moonring.commands.inspect",
  probe = require "moonring.commands.probe",
  chat = require "moonring.run.chat",
  needle = require "moonring.commands.needle",
  prompt = require "moonring.prompt",
}
