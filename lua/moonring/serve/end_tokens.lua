--- The tokens with which a model's answers end.
local generation_stops = require "moonring.data.generation_stops"

---@class moonring.serve.end_tokens
local end_tokens = {}

--- The end tokens of a base model: those of its config.json and generation_config.json, and its
--- tokenizer's eos.
---@param base moonring.serve.Base
---@return integer[]
function end_tokens.of(base)
  if base.end_tokens then return base.end_tokens end
  local list, seen = {}, {}
  local function add(ids)
    for _, id in ipairs(ids) do
      if not seen[id] then list[#list + 1] = id end
      seen[id] = true
    end
  end
  add(base.checkpoint:eos_token_ids())
  add(generation_stops(base.checkpoint))
  add { base.tokenizer and base.tokenizer:eos() }
  base.end_tokens = list
  return list
end

return end_tokens
