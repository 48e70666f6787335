--- Groups the completions of a rollout by their prompt, the best reward first, for a page.

---@class moonring.completion_groups
local completion_groups = {}

---@class moonring.CompletionGroup
---@field prompt string
---@field count integer completions of the prompt
---@field mean? number their mean reward
---@field rows table[] the best and the worst of them, by reward

local PROMPTS, BEST, WORST = 6, 5, 1

-- Completions without a reward come last.
local function reward_of(row) return tonumber(row.reward) or -math.huge end

-- Sorts a group by reward, and removes the rows in the middle of a large one.
local function finish(group)
  local sum, rewarded = 0, 0
  for i, row in ipairs(group.rows) do
    row.at = i
    if tonumber(row.reward) then sum, rewarded = sum + row.reward, rewarded + 1 end
  end
  table.sort(group.rows, function(a, b)
    if reward_of(a) ~= reward_of(b) then return reward_of(a) > reward_of(b) end
    return a.at < b.at
  end)
  group.count, group.mean = #group.rows, rewarded > 0 and sum / rewarded or nil
  local kept = {}
  for i, row in ipairs(group.rows) do
    row.at = nil
    row.rank = i
    if i <= BEST or i > group.count - WORST then kept[#kept + 1] = row end
  end
  group.rows = kept
end

--- The first groups. Rows belong together if their prompt and `example` are equal.
---@param rows table[] lines of completions/N.jsonl
---@param is_cut boolean whether the file continues after these rows; the last group is then omitted
---@return moonring.CompletionGroup[]
---@return integer number of all groups in these rows
function completion_groups.of(rows, is_cut)
  local groups, by_key = {}, {}
  for _, row in ipairs(rows) do
    local key = ("%s\0%s"):format(tostring(row.example), tostring(row.prompt))
    local group = by_key[key]
    if not group then
      group = { prompt = row.prompt, rows = {} }
      by_key[key], groups[#groups + 1] = group, group
    end
    group.rows[#group.rows + 1] = row
    row.prompt = nil
  end
  if is_cut and #groups > 1 then groups[#groups] = nil end
  local count = #groups
  for i = count, PROMPTS + 1, -1 do groups[i] = nil end
  for _, group in ipairs(groups) do finish(group) end
  return groups, count
end

return completion_groups
