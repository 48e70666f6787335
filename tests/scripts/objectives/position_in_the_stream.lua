-- Fault: a token's weight depends on its row on this rank.
local moonring = require "moonring"
return {
  level = "token",
  count = function(batch) return batch:count_targets() end,
  loss = function(_, log_probs)
    local nll = -log_probs
    local row = moonring.arange(log_probs:size(0)):to "fp64" -- expected
    local weight = (row * -0.01):exp()
    return (nll * weight):sum()
  end,
}
