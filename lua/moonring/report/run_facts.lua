--- The facts about a run that are known before its first step: model, method, data, machine. They
-- are shown on the terminal and stored in run_state.json.
local build = require "moonring.base.build"
local compute = require "moonring.choices.compute"
local hardware = require "moonring.base.hardware"
local machine = require "moonring.base.machine"
local own_command = require "moonring.report.own_command"
local shell = require "moonring.base.shell"
local system = require "moonring.native.system"

---@class moonring.run_facts
local run_facts = {}

---@class moonring.RunFacts
---@field run? string the run's name
---@field stage string
---@field finetuning_type string
---@field model table path, family, parameters, trainable, precision, quantisation, template,
---   reference
---@field data string names of the data sets
---@field examples? integer
---@field machine table host, processor, cores, memory_bytes, gpus, ranks, dp, sp, device
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
  local mesh, gpu = run.mesh, hardware.gpu()
  return { host = hardware.host(), processor = hardware.processor(), cores = hardware.cores(),
    memory_bytes = machine.host_memory().total, gpus = gpu and { gpu }, ranks = mesh:size(),
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

return run_facts
