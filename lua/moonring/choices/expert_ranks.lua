--- Expert parallelism (expert_parallel_size): groups of neighbouring ranks divide the experts of
-- every layer among them. This file checks the key and writes its log line.
local errors = require "moonring.base.errors"
local custom_pieces = require "moonring.choices.custom_pieces"

---@class moonring.expert_ranks
local expert_ranks = {}

local KEY = "expert_parallel_size: "

--- Refuses an expert_parallel_size that does not divide the number of ranks.
---@param size integer
---@param ranks integer of dp x sp
function expert_ranks.check_ranks(size, ranks)
  if ranks % size ~= 0 then
    errors.fail(KEY, "expected a divisor of the ", ranks, " ranks, got ", size)
  end
end

--- Refuses expert parallelism for a model without experts.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
function expert_ranks.check_model(c, checkpoint)
  if c.expert_parallel_size > 1 and checkpoint:facts().experts == 0 then
    errors.fail(KEY, "expected 1 for ", c.model_name_or_path, ", which has no experts, got ",
      c.expert_parallel_size)
  end
end

--- Refuses keys that do not support sharded experts.
---@param c moonring.Configuration
function expert_ranks.check_keys(c)
  if c.expert_parallel_size == 1 then return end
  for _, key in ipairs { "offload_optimizer", "offload_weights" } do
    if c[key] and c[key] ~= "none" then
      errors.fail(KEY, "expected 1 with ", key, ", got ", c.expert_parallel_size)
    end
  end
  local own = custom_pieces.of(c, "optim")
  if own then
    errors.fail(KEY, "expected 1 with an optimizer in Lua (", own.place, "), got ",
      c.expert_parallel_size)
  end
end

--- A log line about expert parallelism; nil if it is not used.
---@param zero moonring.Zero
---@param checkpoint moonring.Checkpoint
---@return string?
function expert_ranks.note(zero, checkpoint)
  local ranks, experts = zero:expert_ranks(), checkpoint:facts().experts
  if ranks == 1 then return nil end
  local least, most = math.floor(experts / ranks), math.ceil(experts / ranks)
  local idle = least == 0 and ("; %d ranks of %d have none, and only send"):format(ranks - experts,
    ranks) or ""
  return ("expert_parallel_size: %d: a rank holds %s of each layer's %d experts%s"):format(ranks,
    least == most and tostring(most) or ("%d or %d"):format(least, most), experts, idle)
end

return expert_ranks
