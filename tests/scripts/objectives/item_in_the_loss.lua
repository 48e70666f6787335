-- Fault: a factor is read with tolist, which leaves the graph, and becomes a new tensor.
local moonring = require "moonring"
return {
  level = "sequence",
  count = function(batch) return batch:size() end,
  loss = function(_, log_probs)
    local scaled = log_probs * 0.01
    local numbers = scaled:tolist() -- expected
    local margins = {}
    for i = 1, #numbers, 2 do margins[#margins + 1] = numbers[i] - numbers[i + 1] end
    local chosen = scaled[{ { 0, #numbers, 2 } }]
    return -(chosen * moonring.tensor(margins, "fp64"):sigmoid()):sum()
  end,
}
