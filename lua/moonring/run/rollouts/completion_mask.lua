--- Which tokens of a completion the model sampled. In a completion of several turns the others are
-- given: tool results, which are not trained on.

---@class moonring.completion_mask
local masks = {}

--- Whether token `t` (from 1) was sampled.
---@param completion moonring.Completion
---@param t integer
---@return boolean
function masks.is_sampled(completion, t)
  return completion.mask == nil or completion.mask[t] == 1
end

--- Number of sampled tokens.
---@param completion moonring.Completion
---@return integer
function masks.sampled(completion)
  local count = 0
  for t = 1, #completion.ids do count = count + (masks.is_sampled(completion, t) and 1 or 0) end
  return count
end

--- The completion in parts of tokens that were all sampled, or all given.
---@param completion moonring.Completion
---@return { sampled: boolean, ids: integer[] }[]
function masks.parts(completion)
  local parts = {}
  for t, id in ipairs(completion.ids) do
    local sampled, part = masks.is_sampled(completion, t), parts[#parts]
    if not part or part.sampled ~= sampled then
      part = { sampled = sampled, ids = {} }
      parts[#parts + 1] = part
    end
    part.ids[#part.ids + 1] = id
  end
  return parts
end

return masks
