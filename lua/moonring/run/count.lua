--- Steps with their number from 1: `for step, k in moonring.count(dataset:steps { ... }) do`.
---@param steps moonring.Steps
---@param made? integer steps behind them; 0 where absent
---@return fun(): moonring.Step?, integer
return function(steps, made)
  local k = made or 0
  return function()
    k = k + 1
    return steps:next(), k
  end
end
