--- moonring faulty_example.lua FAULT EXAMPLE CONFIG.yaml|key=value...: trains with one faulty
-- example of the data set, whose loss is NaN ("loss"), or only its gradient is NaN ("gradient"),
-- or its gradient is large ("spike").
local moonring = require "moonring"
local stages = require "moonring.choices.stages"
local fault, faulty = table.remove(arg, 1), tonumber(table.remove(arg, 1))

local function faulty_objective(config, policy)
  local objective = stages.of(config).objective(config, policy)
  local loss = objective.loss
  function objective.loss(batch, values)
    local sum, metrics = loss(batch, values)
    for _, example in ipairs(batch:examples()) do
      if example == faulty then
        local nothing = (values - values:detach()):sum() -- with a gradient of 1
        if fault == "loss" then
          sum = sum * (0 / 0)
        elseif fault == "gradient" then
          sum = sum + nothing:sqrt()
        else
          sum = sum + nothing * 1e3
        end
      end
    end
    return sum, metrics
  end
  return objective
end

local open = moonring.run.open
function moonring.run.open(config) return open(config, { objective = faulty_objective }) end

dofile(moonring.system.script_path "train")
