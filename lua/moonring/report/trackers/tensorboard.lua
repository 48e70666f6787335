--- The value tensorboard of the key report_to: writes event files (trainer/reports/event_file.h)
-- with scalars, histograms, texts and, for the HParams dashboard, the run's keys.
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.tensorboard
local tensorboard = {}

-- Metrics by which the HParams dashboard compares runs.
local METRICS = { "train/loss", "eval/loss" }

-- Indents JSON as a Markdown code block.
local function code(json)
  return "    " .. json:gsub("\n", "\n    ")
end

--- Opens an event file in a folder, which is created if it is missing.
---@param _ moonring.Configuration
---@param folder string
---@param first_step integer
---@return table tracker
function tensorboard.open(_, folder, first_step)
  system.make_folder(folder)
  local file = trainer.event_file { folder = folder, first_step = first_step }
  local tracker = {}
  function tracker.begin(facts)
    file:text(0, "args", code(system.json_encode(facts.configuration, 2)))
    if facts.model_config then file:text(0, "model_config", code(facts.model_config)) end
    file:hyperparameters(facts.configuration, METRICS)
  end
  function tracker.numbers(step, by_name) file:scalars(step, by_name) end
  function tracker.text(step, tag, text) file:text(step, tag, text) end
  function tracker.lengths(tag, list) file:histogram(0, tag, list) end
  function tracker.finish(step, state)
    if state == "finished" then file:finish(step) end
  end
  return tracker
end

return tensorboard
