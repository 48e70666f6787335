-- Right: a policy gradient. Its gradient is deliberately not that of its value.
return {
  level = "token",
  surrogate = true,
  count = function(batch) return batch:count_targets() end,
  loss = function(batch, log_probs)
    local advantage = (batch:cut(batch:sequence():ids()):to "fp64" % 5) - 2
    local ratio = (log_probs - log_probs:detach()):exp()
    local clipped = ratio:clamp(0.8, 1.2)
    local learnt = batch.targets:gt(-1):to "fp64"
    return -((ratio * advantage):minimum(clipped * advantage) * learnt):sum(),
      { ratio = { (ratio * learnt):sum(), learnt:sum() } }
  end,
}
