--- Command lines as text.

---@class moonring.shell
local shell = {}

local function quoted(word)
  if word:find "^[%w_@%%+=:,./-]+$" then return word end
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

--- The words of a command as a line that a shell splits into the same words.
---@param words string[]
---@return string
function shell.line(words)
  local list = {}
  for i, word in ipairs(words) do list[i] = quoted(word) end
  return table.concat(list, " ")
end

return shell
