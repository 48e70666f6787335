-- Fault: the loss has a factor that depends on the weights, and detach leaves it out of the
-- gradient.
return {
  level = "token",
  count = function(batch) return batch:count_targets() end,
  loss = function(_, log_probs)
    local p = log_probs:exp()
    local gamma = (1 - p):detach() -- expected
    local focal = gamma ^ 2 * log_probs
    return -focal:sum()
  end,
}
