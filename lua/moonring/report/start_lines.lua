--- The lines before the first step: the model, the method, the data, the steps, and an example.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local data_report = require "moonring.report.data_report"
local journal_lines = require "moonring.report.journal_lines"
local machine = require "moonring.base.machine"
local trained_example = require "moonring.report.trained_example"

---@class moonring.start_lines
local start_lines = {}

local MODEL = "model     %s%s: %s parameters, %s of them trainable (%s %%)"

local function method(facts, c)
  local model, parts = facts.model, { facts.stage }
  local function add(text) parts[#parts + 1] = text end
  add(facts.finetuning_type .. (adapter_kinds.has(c) and c.lora_rank
    and (" of rank %d"):format(c.lora_rank) or ""))
  add(("%s on %s"):format(model.precision, (facts.machine.gpus or {})[1] or facts.machine.device))
  if model.quantisation then add("base in " .. model.quantisation) end
  add(model.template and "template " .. model.template or "no template")
  if model.reference then add("reference " .. model.reference) end
  return "training  " .. table.concat(parts, ", ")
end

local function model(facts)
  local of = facts.model
  return MODEL:format(of.path, of.family and (" (%s)"):format(of.family) or "",
    machine.grouped(of.parameters), machine.grouped(of.trainable),
    ("%.3g"):format(100 * of.trainable / math.max(of.parameters, 1)))
end

local function steps(counts, mesh)
  local ranks = mesh:size() > 1 and (" on %d ranks (dp %d x sp %d)"):format(mesh:size(),
    mesh:dp_size(), mesh:sp_size()) or ""
  return ("%d steps of %d examples%s"):format(counts.total_steps, counts.examples_per_step, ranks)
end

--- Logs the lines. On rank 0.
---@param journal moonring.Journal
---@param parts moonring.JournalParts
function start_lines.tell(journal, parts)
  if parts.facts then
    journal:say(model(parts.facts))
    journal:say(method(parts.facts, journal.config))
  end
  journal:beside(data_report.begin, journal)
  journal:say(steps(journal.counts, journal.mesh))
  journal:detail(("%s; %s"):format(tostring(journal.mesh), tostring(parts.attention)))
  local example = trained_example.text(journal.config, parts.dataset, parts.tokenizer)
  if example then journal:say(example) end
  journal_lines.say_prepared(journal)
end

return start_lines
