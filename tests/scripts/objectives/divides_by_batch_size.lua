-- Fault: the loss is divided by the number of examples of the micro-batch.
return {
  level = "token",
  count = function(batch) return batch:count_targets() end,
  loss = function(batch, log_probs)
    local p = log_probs:exp()
    local entropy = -(p * log_probs):sum()
    local size = batch:size()
    return entropy / size - log_probs:sum() -- expected
  end,
}
