--- Moonring, as scripts see it: `local moonring = require "moonring"`. Names, and nothing else:
-- native modules (moonring.native.*, described in lua/types), and the faces of Lua's rooms. What
-- else a room has is required by its name: `require "moonring.choices.compute"`. Rooms, from the
-- lowest floor (tests/layering/lua_rooms_test.py): base, nn and sandbox, choices, config, hub, data
-- and model, plan, report and rewards, run, prompt, commands.
local api_table = require "moonring.base.api_table"
local autograd = require "moonring.base.autograd"
local creation = require "moonring.base.creation"
local flags = require "moonring.base.flags"
local operators = require "moonring.native.operators"
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"

return api_table.guard {
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

  -- What a script is given, and where its text goes.
  config = require "moonring.config",
  flags = flags.read,
  required = flags.required,
  terminal = require "moonring.base.terminal",

  -- Models and data.
  hub = require "moonring.hub",
  model = require "moonring.model",
  policy = require "moonring.model.policy",
  data = require "moonring.data",

  -- A run, and what a script's own loop is made of.
  run = require "moonring.run",
  launch = require "moonring.run.launch",
  engine = require "moonring.run.engine",
  masks = require "moonring.run.masks",
  metrics = require "moonring.base.metrics",
  optimizer = require("moonring.choices.custom_optimizer").new,
  rewards = require "moonring.rewards",

  -- Memory and time predicted, and what is reported.
  plan = require "moonring.plan",
  report = require "moonring.report",
}
