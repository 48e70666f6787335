--- Proposes changes of keys for a traced run. Each proposal states the seconds per step that it
-- concerns; the largest comes first.
---@class moonring.trace_advice
local trace_advice = {}

---@class moonring.TraceProposal
---@field seconds number per step
---@field what string what takes this time
---@field try string which key to try

-- The component of the step in which a late rank spent most of the time that others waited for it.
local function mostly(late)
  local part, most = "other", 0
  for name, seconds in pairs(late.doing) do
    if seconds > most or seconds == most and name < part then part, most = name, seconds end
  end
  return part, most
end

-- A proposal about a rank that is late because of a component of the step. `same_sp`: whether the
-- rank that waits most for it is in the same sp group.
local function about_late(part, same_sp, keys)
  if part == "data" then
    return keys.streaming and "tokenized_path: data prepared once; or dataloader_num_workers"
      or "a faster disk or more cores of that machine: its steps are prepared too slowly"
  elseif part == "saving" then
    return "save_steps: save less often"
  elseif part == "evaluation" then
    return "eval_steps: evaluate less often"
  elseif part == "other" then
    return "to find what else that machine does, and the script between the parts of a step"
  elseif same_sp then
    if keys.sequence_parallel_mode == "auto" then
      return "to find what else runs on that machine: the ranks' work is balanced already"
    end
    return "sequence_parallel_mode: auto, which balances the ranks' work; if the rank is late in "
      .. "every trace, its machine is slow"
  end
  return "group_by_length: true, so that groups have equal work; if the rank is late in every "
    .. "trace, its machine is slow"
end

--- The rank that waited longest for a late rank, and the seconds. Ranks count from 1.
---@param late moonring.TraceLate
---@return integer waiter
---@return number seconds
function trace_advice.worst_waiter(late)
  local waiter, most = 0, -1
  for other, seconds in pairs(late.waited) do
    if seconds > most then waiter, most = other, seconds end
  end
  return waiter, most
end

local function late_ranks(add, events, time, steps)
  local sp = events.details.sp
  for rank, late in pairs(time.late) do
    local waiter, seconds = trace_advice.worst_waiter(late)
    local part = mostly(late)
    local same_sp = sp > 1 and math.floor((waiter - 1) / sp) == math.floor((rank - 1) / sp)
    add(seconds / steps, ("rank %d is late, in %s: rank %d waits for it"):format(rank - 1, part,
      waiter - 1), about_late(part, same_sp, events.details.keys))
  end
end

local function about_exposed(area, keys)
  if area == "attention" then
    return keys.sequence_parallel_mode == "auto"
      and "sequence_parallel_size: fewer ranks per sequence, if memory allows"
      or "sequence_parallel_mode: auto"
  elseif area == "gradients" then
    return "gradient_accumulation_steps: more; or local_steps: groups synchronize less often"
  elseif area == "weights" then
    return (keys.zero_stage or 0) >= 3 and "zero_stage: 2, if memory allows; or zero_group: node"
      or "micro_batch_tokens: more, so that there are fewer forwards"
  elseif area == "optimizer" then
    return "zero_group: node; or zero_stage: 0, if memory allows"
  end
  return "logging_steps: more"
end

local function mean_exposed(time, area, ranks, steps)
  local sum = 0
  for rank = 1, ranks do sum = sum + (time.exposed[rank][area] or 0) end
  return sum / ranks / steps
end

-- A proposal about a component of the step that takes long on every rank.
local function about_part(part, keys)
  if part == "recompute" then
    return keys.recompute == "selective" and "recompute: none" or "recompute: selective, or auto"
  elseif part == "data" then
    return keys.streaming and "dataloader_num_workers: more readers at a time"
      or "micro_batch_tokens: more; or a faster disk, if the data is large"
  elseif part == "optimizer" then
    if keys.offload_optimizer then return "offload_optimizer: none, if memory allows" end
    return (keys.zero_stage or 0) == 0 and "zero_stage: 1: each rank updates only its shard"
      or "gradient_accumulation_steps: more, so that there are fewer updates"
  elseif part == "saving" then
    return "save_steps: save less often"
  elseif part == "evaluation" then
    return "eval_steps: evaluate less often"
  elseif part == "rollouts" then
    return "max_completion_length: shorter completions; num_iterations: more steps per rollout"
  end
  return "logging_steps: more; the rest is the script's work between the parts"
end

--- Proposals, the one that concerns most seconds first.
---@param events moonring.TraceEvents
---@param time moonring.TraceTime
---@param means table<string, number> seconds per step by component, averaged over ranks and steps
---@return moonring.TraceProposal[]
function trace_advice.of(events, time, means)
  local found, steps = {}, #time.steps
  local function add(seconds, what, try)
    found[#found + 1] = { seconds = seconds, what = what, try = try }
  end
  local keys = events.details.keys
  late_ranks(add, events, time, steps)
  for _, area in ipairs { "attention", "weights", "gradients", "optimizer", "the rest" } do
    add(mean_exposed(time, area, #events.ranks, steps),
      ("communication that does not overlap with computing (%s)"):format(area),
      about_exposed(area, keys))
  end
  if events.details.has_bf16 and not (keys.bf16 or keys.fp16 or keys.pure_bf16) then
    add(means.forward + means.backward, "forward and backward, in fp32", "bf16: true")
  end
  for _, part in ipairs { "data", "recompute", "optimizer", "rollouts", "evaluation", "saving",
    "other" } do
    add(means[part], part, about_part(part, keys))
  end
  table.sort(found, function(a, b)
    if a.seconds ~= b.seconds then return a.seconds > b.seconds end
    return a.what < b.what
  end)
  return found
end

return trace_advice
