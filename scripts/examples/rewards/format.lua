-- Rewards an answer that is one sentence in double quotes and nothing else, in steps of 0.25.
local function quoted(row)
  local text = row.completion:gsub("^%s+", ""):gsub("%s+$", "")
  local worth = 0
  if text:find '^"' then worth = worth + 0.25 end
  if text:find '^".-"$' then worth = worth + 0.25 end
  if text:find '^"[^"]+"$' then worth = worth + 0.25 end
  if row.stopped then worth = worth + 0.25 end
  return worth
end

return { { name = "quoted", each = quoted } }
