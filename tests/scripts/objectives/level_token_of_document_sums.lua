-- Fault: level token, and each token's loss is weighted by its document's log-prob. On several
-- ranks the document's sum has the gradient of this rank's tokens only.
return {
  level = "token",
  count = function(batch) return batch:count_targets() end,
  loss = function(batch, log_probs) -- expected
    local number = batch:cut(batch:sequence():of_tokens(
      require("moonring").arange(#batch:lengths()):tolist()))
    local lengths = batch:document_targets()
    local mean = batch:document_sums(log_probs) / lengths
    local surprise = mean[number]
    return -(log_probs * (1 - surprise:exp())):sum()
  end,
}
