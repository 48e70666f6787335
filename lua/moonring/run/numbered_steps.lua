--- Returns an iterator over steps and their numbers, for loops such as
--- `for step, k in moonring.count(dataset:steps { ... }) do`.
---@param steps moonring.Steps
---@param made? integer number of earlier steps; default 0
---@return fun(): moonring.Step?, integer
return function(steps, made)
  local k = made or 0
  return function()
    k = k + 1
    return steps:next(), k
  end
end
