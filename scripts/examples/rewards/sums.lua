-- Two rewards for sums: 1 if the last number of the completion is the row's answer, and 0.2 if the
-- completion is a bare number.
local function right(row)
  local last
  for number in row.completion:gmatch "%d+" do last = number end
  return last == row.answer and 1 or 0
end

local function bare(row) return row.completion:find "^%s*%d+%.?%s*$" and 0.2 or 0 end

return { { name = "right", each = right }, { name = "bare", each = bare } }
