-- Fault: weights are a softmax over this rank's tokens.
return {
  level = "token",
  count = function(batch) return batch:size() end,
  loss = function(_, log_probs)
    local weight = log_probs:softmax(0) -- expected
    local nll = -log_probs
    return (weight * nll):sum()
  end,
}
