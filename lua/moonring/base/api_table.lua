--- Makes access to an unknown name of the API an error with a suggestion. Without this, a table
-- would return nil, and the script would fail later, at an unrelated line.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.api_table
local api_table = {}

-- Names that were fields of `moonring` in older versions, and the modules that replace them.
local MODULES = {
  advantages = "run.rollouts.advantages", agreement = "config.agreement", batch = "run.batch",
  chat = "run.chat", checkpoints = "run.checkpoint.checkpoints", checks = "run.checks",
  compute = "choices.compute", configured_template = "data.configured_template",
  counts = "choices.counts", datasets = "data.datasets",
  errors = "base.errors", explain = "commands.explain", gguf_file = "model.gguf_file",
  gpu = "plan.gpu", help = "commands.help", inspect = "commands.inspect", jinja = "data.jinja",
  journal = "report.journal", kept_reference = "run.kept_reference", loss_scale = "run.loss_scale",
  machine = "base.machine", memory = "plan.memory", memory_check = "plan.check",
  memory_facts = "plan.facts", memory_report = "report.memory_report", needle = "commands.needle",
  noise = "run.noise", nonfinite = "run.nonfinite", objective = "choices.objective",
  optimizers = "choices.optimizers", options = "base.options", output_folder = "run.output_folder",
  pace = "run.pace", packing = "model.packing", phases = "report.phases",
  plan_tables = "plan.tables", plan_text = "plan.text", prediction = "run.prediction",
  preemption = "run.preemption", probe = "commands.probe", prompt = "prompt",
  reference = "run.reference", references = "run.references", resume = "run.checkpoint.resume",
  rollouts = "run.rollouts", router = "run.router", schedules = "choices.schedules",
  stages = "choices.stages", strategies = "choices.strategies", templates = "data.templates",
  times = "base.times", updates = "run.updates", vocabulary = "data.vocabulary",
}

--- Protects a table: reading a name that it does not have becomes an error. Scripts cannot remove
--- this check, since getmetatable returns false for the table. Modules in `later` are loaded when
--- their names are first read: loading their files takes milliseconds, and few scripts need them.
---@generic T: table
---@param names T
---@param later? table<string, string> modules by name
---@return T names
function api_table.guard(names, later)
  later = later or {}
  local function missing(_, name)
    if later[name] then
      names[name] = require(later[name])
      return names[name]
    end
    if MODULES[name] then
      errors.raise("NOT_FOUND", "moonring.", name, " is a module: require ",
        ('"moonring.%s"'):format(MODULES[name]))
    end
    local known = {}
    for each in pairs(names) do known[#known + 1] = each end
    for each in pairs(later) do known[#known + 1] = each end
    errors.raise("NOT_FOUND", "moonring.", tostring(name), ": the API has no such name",
      system.did_you_mean(tostring(name), known))
  end
  return setmetatable(names, { __index = missing, __metatable = false })
end

return api_table
