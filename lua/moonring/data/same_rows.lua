--- Whether all ranks were given the same rows by their sources. Where they were not, each would
-- train on something else without a word.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.same_rows
local same_rows = {}

-- Ranks by what they say, in words: "rank 0 has 1a2b, ranks 1 and 3 have 5c6d".
local function told(said)
  local order, ranks = {}, {}
  for rank, text in ipairs(said) do
    if not ranks[text] then
      ranks[text] = {}
      order[#order + 1] = text
    end
    table.insert(ranks[text], rank - 1)
  end
  for i, text in ipairs(order) do
    local of = ranks[text]
    local has = #of > 1 and "have" or "has"
    order[i] = ("rank%s %s %s %s"):format(#of > 1 and "s" or "", table.concat(of, ", "), has, text)
  end
  return table.concat(order, "; ")
end

-- The first of the rows since the last agreement that is not the same on all ranks, and what each
-- has there. `all`: of each rank their digests, and behind them whether the source has ended.
local function first_difference(all, first)
  local lists, most = {}, 0
  for rank, text in ipairs(all) do
    lists[rank] = system.json_decode(text)
    most = math.max(most, #lists[rank])
  end
  for i = 1, most do
    local said, differs = {}, false
    for rank, list in ipairs(lists) do
      said[rank] = list[i] or "more than none"
      differs = differs or said[rank] ~= said[1]
    end
    if differs then return first + i - 1, told(said) end
  end
end

--- Runs `body` on every rank, and ends all of them where it fails on one, with that rank's error,
--- or where the rows of `feed`, or their end, are not the same on all (DATA_LOSS: the row and the
--- ranks). Collective over all ranks.
---@param mesh? moonring.Mesh nil: this process alone
---@param name string of the source
---@param feed moonring.Feed
---@param body fun(): boolean whether the source has ended
function same_rows.agree(mesh, name, feed, body)
  local ok, ended = pcall(body)
  if not ok and (not mesh or mesh:size() == 1) then errors.prefix(ended) end
  local digests = feed:row_digests()
  if not mesh or mesh:size() == 1 then return end
  local all = mesh:gather(not ok and "!" .. tostring(ended)
    or ("%d %s %s"):format(feed:rows(), feed:digest(), tostring(ended)))
  for rank, text in ipairs(all) do
    if text:sub(1, 1) == "!" then
      if text == all[#all] then errors.prefix(text:sub(2)) end -- not this rank's alone
      errors.prefix(text:sub(2), "rank ", rank - 1, ": ")
    end
  end
  local same = true
  for _, text in ipairs(all) do same = same and text == all[1] end
  if same then return end
  local first = feed:rows() - #digests + 1
  if ended then digests[#digests + 1] = "none" end
  local row, said = first_difference(mesh:gather(system.json_encode(digests)), first)
  errors.raise("DATA_LOSS", name, " (row ", row, "): the source gives ranks other rows, by their ",
    "digests: ", said, "; it must give the same on every rank")
end

return same_rows
