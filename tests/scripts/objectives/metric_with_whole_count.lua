-- Fault: at level token a metric's count is that of the whole stream: each rank adds it.
return {
  level = "token",
  count = function(batch) return batch:count_targets() end,
  loss = function(batch, log_probs)
    local p = log_probs:exp()
    local learnt = batch.targets:gt(-1):to "fp64"
    local confident = (p * learnt):sum()
    local targets = batch:count_targets() -- expected
    return -log_probs:sum(), { confidence = { confident, targets } }
  end,
}
