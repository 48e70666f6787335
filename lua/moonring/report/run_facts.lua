--- The facts about a run that are known before its first step: model, method, data, machine. They
-- are shown on the terminal and stored in run_state.json.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local build = require "moonring.base.build"
local compute = require "moonring.choices.compute"
local hardware = require "moonring.base.hardware"
local machine = require "moonring.base.machine"
local own_command = require "moonring.report.own_command"
local shell = require "moonring.base.shell"
local system = require "moonring.native.system"

---@class moonring.run_facts
local run_facts = {}

---@class moonring.ModelNumbers
---@field parameters integer of the model, and of its adapter if it has one
---@field trainable integer

---@class moonring.RunFacts
---@field run? string the run's name
---@field stage string
---@field finetuning_type string
---@field model table path, family, parameters, trainable, precision, quantisation, template,
---   reference
---@field data string names of the data sets
---@field examples? integer
---@field machine table host, processor, cores, memory_bytes, gpu, ranks, dp, sp, device
---@field moonring string version
---@field commit? string
---@field libtorch string
---@field command string? the command line, without secrets
---@field directory string the working directory

-- The number of elements of all parameters in a list, and of the trainable ones.
local function counted(list)
  local all, trainable = 0, 0
  for _, parameter in ipairs(list:list()) do
    local elements = 1
    for _, size in ipairs(parameter:shape()) do elements = elements * size end
    all = all + elements
    if parameter:trainable() then trainable = trainable + elements end
  end
  return all, trainable
end

-- Counts the model's parameters from its files, because a rank may hold only some of the experts,
-- or packed weights. Adapter parameters exist only in the engine.
local function model_numbers(run)
  local all = 0
  for _, part in ipairs(run.checkpoint:parts()) do all = all + part.parameters end
  local own, trainable = counted(run.engine.parameters)
  if run.model:base() then all = all + own end
  return { parameters = all, trainable = math.min(trainable, all) }
end

local function quantisation(c)
  if c.quantization_bit then
    local kind = c.quantization_bit == 4 and c.quantization_type
    return ("%d bits%s"):format(c.quantization_bit, kind and (" (%s)"):format(kind) or "")
  end
  return c.quantization_method == "gguf" and "as in the .gguf file" or nil
end

local function family(checkpoint)
  local ok, config = pcall(system.json_decode, checkpoint:config_json())
  return ok and type(config) == "table" and config.model_type or nil
end

local function machine_of(run)
  local mesh = run.mesh
  return { host = hardware.host(), processor = hardware.processor(), cores = hardware.cores(),
    memory_bytes = machine.host_memory().total, gpu = hardware.gpu(), ranks = mesh:size(),
    dp = mesh:dp_size(), sp = mesh:sp_size(), device = run.device }
end

--- The facts of a run whose components are open. On rank 0.
---@param run moonring.Run
---@param reference? string which model is the reference, if the stage has one
---@return moonring.RunFacts
function run_facts.of(run, reference)
  local c, built, words = run.config, build.facts(), own_command.words()
  local numbers = model_numbers(run)
  return {
    run = run.name, stage = c.stage, finetuning_type = c.finetuning_type,
    model = { path = c.model_name_or_path, family = family(run.checkpoint),
      parameters = numbers.parameters, trainable = numbers.trainable,
      precision = compute.precision(c), quantisation = quantisation(c),
      template = run.tokenizer and type(c.template) == "string" and c.template or nil,
      reference = reference },
    data = c.dataset and table.concat(c.dataset, ", ") or c.data_source or "a script's own data",
    examples = not c.streaming and run.data:size() or nil,
    machine = machine_of(run),
    moonring = built.version, commit = built.commit, libtorch = built.libtorch,
    command = #words > 0 and shell.line(words) or nil,
    directory = (system.absolute ".":gsub("(.)/$", "%1")),
  }
end

local LINES = "model     %s%s: %s parameters, %s of them trainable (%s %%)"

local function method(facts, c)
  local model, parts = facts.model, { facts.stage }
  local function add(text) parts[#parts + 1] = text end
  add(facts.finetuning_type .. (adapter_kinds.has(c) and c.lora_rank
    and (" of rank %d"):format(c.lora_rank) or ""))
  add(("%s on %s"):format(model.precision, facts.machine.gpu or facts.machine.device))
  if model.quantisation then add("base in " .. model.quantisation) end
  add(model.template and "template " .. model.template or "no template")
  if model.reference then add("reference " .. model.reference) end
  return "training  " .. table.concat(parts, ", ")
end

--- The facts as lines for the terminal.
---@param facts moonring.RunFacts
---@param c moonring.Configuration
---@return string[]
function run_facts.lines(facts, c)
  local model = facts.model
  return { LINES:format(model.path, model.family and (" (%s)"):format(model.family) or "",
    machine.grouped(model.parameters), machine.grouped(model.trainable),
    ("%.3g"):format(100 * model.trainable / math.max(model.parameters, 1))), method(facts, c) }
end

return run_facts
