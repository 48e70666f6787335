--- The public Lua API: `local moonring = require "moonring"`. This table only collects names: the
-- native modules (moonring.native.*, described in lua/types) and the main module of each folder.
-- Other modules are required by their full name: `require "moonring.choices.compute"`. A folder may
-- require only folders below it (tests/layering/lua_rooms_test.py). From the lowest to the highest:
-- base, nn and sandbox, choices, config, hub, data and model, plan, report and rewards, run,
-- serve, prompt, commands.
local api_table = require "moonring.base.api_table"
local autograd = require "moonring.base.autograd"
local creation = require "moonring.base.creation"
local flags = require "moonring.base.flags"
local operators = require "moonring.native.operators"
local script_globals = require "moonring.base.script_globals"
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"

script_globals.guard(_G)

return api_table.guard({
  version = system.version(),
  null = system.null,

  -- Native modules and functions, implemented in C++.
  attention = require "moonring.native.attention",
  collectives = require "moonring.native.collectives",
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

  -- Tensors: all operators, functions that create tensors, autograd, modules.
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

  -- Input and output of a script: configuration, command-line options, terminal.
  config = require "moonring.config",
  flags = flags.read,
  required = flags.required,
  terminal = require "moonring.base.terminal",

  -- Models and data.
  hub = require "moonring.hub",
  model = require "moonring.model",
  policy = require "moonring.model.policy",
  data = require "moonring.data",

  -- Training runs, and the components for writing a custom training loop.
  run = require "moonring.run",
  launch = require "moonring.run.launch",
  count = require "moonring.run.numbered_steps",
  engine = require "moonring.run.engine",
  masks = require "moonring.run.masks",
  metrics = require "moonring.base.metrics",
  optimizer = require("moonring.choices.custom_optimizer").new,
  rewards = require "moonring.rewards",

  -- Predictions of memory and time, and reports.
  plan = require "moonring.plan",
  report = require "moonring.report",
}, {
  serve = "moonring.serve", -- the service of `moonring serve`
})
