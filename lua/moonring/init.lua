--- Moonring, as scripts see it: `local moonring = require "moonring"`.
-- The cores' bindings (moonring.native.*) under their folders' names, joined by a few functions in Lua. What each offers is
-- described in lua/types.
local config = require "moonring.config"
local flags = require "moonring.flags"
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
  model = require "moonring.native.model",
  data = require "moonring.native.data",
  objectives = require "moonring.native.objectives",
  trainer = require "moonring.native.trainer",
  safetensors = require "moonring.native.safetensors",
  config = config,
  options = require "moonring.options",
  checks = require "moonring.checks",
  agreement = require "moonring.agreement",
  objective = require "moonring.objective",
  reference = require "moonring.reference",
  resume = require "moonring.resume",
  router = require "moonring.router",
  runtime = require "moonring.runtime",
  metrics = require "moonring.metrics",
  nonfinite = require "moonring.nonfinite",
  updates = require "moonring.updates",
  pace = require "moonring.pace",
  batch = require "moonring.batch",
  checkpoints = require "moonring.checkpoints",
  cat = tensor.cat,
  datasets = require "moonring.datasets",
  output_folder = require "moonring.output_folder",
  run = require "moonring.run",
  models = require "moonring.models",
  vocabulary = require "moonring.vocabulary",
  jinja = require "moonring.jinja",
  stages = require "moonring.stages",
  templates = require "moonring.templates",
  probe = require "moonring.probe",
  chat = require "moonring.chat",
  inspect = require "moonring.inspect",
  memory = require "moonring.memory",
  memory_facts = require "moonring.memory_facts",
  machine = require "moonring.machine",
  memory_check = require "moonring.memory_check",
  plan = require "moonring.plan",
  plan_text = require "moonring.plan_text",
  plan_tables = require "moonring.plan_tables",
  needle = require "moonring.needle",
  help = require "moonring.help",
  gpu = require "moonring.gpu",
  journal = require "moonring.journal",
  memory_report = require "moonring.memory_report",
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

local open, open_config = moonring.model.open, moonring.model.open_config

local function resolved(path)
  local builtin = path:match "^builtin:(.*)$"
  return builtin and system.builtin(builtin) or path
end

--- Opens a checkpoint: a Hugging Face folder, a .gguf file, or builtin:NAME.
function moonring.model.open(path) return open(resolved(path)) end

--- The same, or a config.json without its weights.
function moonring.model.open_config(path) return open_config(resolved(path)) end

local companions = moonring.model.companions

--- What a tokenizer and its templates are made of, of a model whose weights need not be there: it
-- has a checkpoint's `path` and `companion`, and nothing else.
function moonring.model.open_tokenizer(path)
  local folder = resolved(path)
  local files = companions(folder)
  return {
    path = function() return folder end,
    companion = function(_, name) return files[name] end,
  }
end

local make_tokenizer, changed_files = moonring.data.tokenizer, moonring.data.changed_files

local function tokenizer_files(checkpoint)
  local files = {}
  for _, name in ipairs { "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "tokenizer.model", "spiece.model", "qwen.tiktoken",
    "tekken.json", "vocab.json", "merges.txt" } do
    files[name] = checkpoint:companion(name)
  end
  return files
end

--- The tokenizer that a checkpoint carries.
function moonring.data.tokenizer(checkpoint, options) return make_tokenizer(tokenizer_files(checkpoint), checkpoint:path(), options) end

--- Those of a checkpoint's files that its tokenizer, with tokens added, wants otherwise.
function moonring.data.changed_files(checkpoint, tokenizer) return changed_files(tokenizer_files(checkpoint), tokenizer) end

local find_model_template = moonring.data.model_template

--- The chat template that a checkpoint carries, or nil.
function moonring.data.model_template(checkpoint, tokenizer)
  local files = {}
  for _, name in ipairs { "chat_template.jinja", "tokenizer_config.json", "tokenizer.json" } do files[name] = checkpoint:companion(name) end
  return find_model_template(files, tokenizer, checkpoint:path())
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
