--- Checks that the sources of all ranks return the same rows. Otherwise ranks would silently train
-- on different data.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.same_rows
local same_rows = {}

-- Groups ranks by their text: "rank 0 has 1a2b, ranks 1 and 3 have 5c6d".
local function grouped(said)
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

-- The first row since the last check that differs between ranks, with each rank's digest of it.
-- `all` has one list per rank: the digests of its rows, followed by "none" if its source has ended.
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
    if differs then return first + i - 1, grouped(said) end
  end
end

--- Calls `body`, which reads rows into `feed`, on every rank. If it fails on one rank, all ranks
--- fail with that rank's error. If the rows differ between ranks, or only some sources have ended,
--- all ranks fail with DATA_LOSS, which names the row and the ranks. Collective over all ranks.
---@param mesh? moonring.Mesh nil: only this process
---@param name string the source's name
---@param feed moonring.Feed
---@param body fun(): boolean whether the source has ended
function same_rows.agree(mesh, name, feed, body)
  local ok, ended = pcall(body)
  if not ok and (not mesh or mesh:size() == 1) then errors.prefix(ended) end
  local digests = feed:row_digests()
  if not mesh or mesh:size() == 1 then return end
  local all = mesh:gather(not ok and "!" .. errors.encode(ended)
    or ("%d %s %s"):format(feed:rows(), feed:digest(), tostring(ended)))
  for rank, text in ipairs(all) do
    if text:sub(1, 1) == "!" then
      local why = errors.decode(text:sub(2))
      if text == all[#all] then errors.prefix(why) end -- the same error on all ranks
      errors.prefix(why, "rank ", rank - 1, ": ")
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
