-- Fault: a metric is the mean over micro-batches of their means.
return {
  level = "token",
  count = function(batch) return batch:count_targets() end,
  loss = function(batch, log_probs)
    local p = log_probs:exp()
    local learnt = batch.targets:gt(-1):to "fp64"
    local targets = learnt:sum()
    local mean = (p * learnt):sum() / targets -- expected
    return -log_probs:sum(), { confidence = { mean, 1 } }
  end,
}
