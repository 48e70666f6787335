-- Right: IPO with a margin at which it has a kink, a state, a reference and metrics.
local seen = 0
return {
  level = "sequence",
  needs_reference = true,
  count = function(batch) return batch:size() end,
  state = function() return tostring(seen) end,
  load_state = function(text) seen = tonumber(text) end,
  loss = function(batch, log_probs)
    seen = seen + 1
    local ratio = (log_probs - batch.reference) / batch:document_targets()
    local pairs_of = ratio:view(-1, 2)
    local margin = pairs_of[{ {}, 0 }] - pairs_of[{ {}, 1 }]
    return ((margin - 0.1) ^ 2):sum() + (0.05 - margin):relu():sum(),
      { accuracy = { margin:gt(0):to("fp64"):sum():item(), margin:numel() },
        largest = { margin:max():item(), 1, "max" } }
  end,
}
