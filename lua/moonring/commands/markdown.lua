--- Converts annotations to Markdown of at most 100 columns. Used by lua_pages.lua.
---@class moonring.markdown
local markdown = {}

local WIDTH = 100

-- Escapes characters that have a meaning in Markdown, except within code spans.
local function escaped(text)
  local parts, code = {}, false
  for part, tick in (text .. "\0"):gmatch "([^`%z]*)([`%z])" do
    if not code then
      part = part:gsub("[<*|]", "\\%0"):gsub("%f[%w_]_", "\\_"):gsub("%]%(", "]\\(")
    end
    parts[#parts + 1] = part
    if tick == "`" then
      parts[#parts + 1], code = "`", not code
    end
  end
  return table.concat(parts)
end

-- Wraps words into lines: the first line begins with `first`, the others with `indent`. If a word
-- at the beginning of a line would start a list or a quotation, it is escaped.
local function filled(text, first, indent)
  local lines, line, fresh = {}, first, not first:find "%S$"
  for word in text:gmatch "%S+" do
    if not fresh and #line + 1 + #word > WIDTH then
      lines[#lines + 1], line, fresh = line, indent, true
      word = word:gsub("^[-+#>]", "\\%0"):gsub("^(%d+)([.)])$", "%1\\%2")
    end
    line, fresh = line .. (fresh and "" or " ") .. word, false
  end
  lines[#lines + 1] = line
  return lines
end

--- Converts a text: paragraphs are wrapped, lines with an indent of four become code blocks, and
--- lines that begin with "- " a list.
---@param text string
---@return string
function markdown.text(text)
  local lines, paragraph, code = {}, nil, false
  local function flush()
    if not paragraph then return end
    local list = paragraph:find "^%- "
    local words = escaped(list and paragraph:sub(3) or paragraph)
    for _, line in ipairs(filled(words, list and "- " or "", list and "  " or "")) do
      lines[#lines + 1] = line
    end
    paragraph = nil
  end
  local function fence(wanted)
    if wanted == code then return end
    flush()
    if wanted and lines[#lines] ~= "" then lines[#lines + 1] = "" end
    while not wanted and lines[#lines] == "" do lines[#lines] = nil end
    lines[#lines + 1] = wanted and "```text" or "```"
    if not wanted then lines[#lines + 1] = "" end
    code = wanted
  end
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do
    fence(line:find "^    " ~= nil or (code and line == ""))
    if code then
      lines[#lines + 1] = line:gsub("^    ", "")
    elseif line == "" then
      flush()
      lines[#lines + 1] = ""
    elseif line:find "^%- " then
      flush()
      paragraph = line
    else
      paragraph = paragraph and paragraph .. " " .. line or line
    end
  end
  flush()
  fence(false)
  return (table.concat(lines, "\n"):gsub("\n\n\n+", "\n\n"):gsub("%s+$", ""))
end

--- A list item with a heading, a type and a description.
---@param head string "`name`: ", "returns "
---@param types string
---@param text? string
---@return string
function markdown.entry(head, types, text)
  text = text or ""
  local line = ("- %s`%s`"):format(head, types)
  if #line > WIDTH then -- long types are broken at spaces
    line = table.concat(filled(line:sub(3), "- ", "  "), "\n")
    return text == "" and line
      or line .. "\n" .. table.concat(filled(escaped(text), "  ", "  "), "\n")
  end
  return text == "" and line or table.concat(filled(escaped(text), line .. " -", "  "), "\n")
end

local function named(each)
  local head = ("`%s%s`: "):format(each.name, each.optional and "?" or "")
  return markdown.entry(head, each.types, each.text)
end

--- The section about a function: its call, description, parameters and results.
---@param each moonring.AnnotatedFunction
---@param called string full name: "moonring.comm.mesh", "mesh:rank"
---@return string
function markdown.of_function(each, called)
  local names, list = {}, {}
  for i, param in ipairs(each.params) do
    names[i], list[i] = param.name .. (param.optional and "?" or ""), named(param)
  end
  for _, result in ipairs(each.returns) do
    local head = result.name ~= "" and ("returns `%s`: "):format(result.name) or "returns "
    list[#list + 1] = markdown.entry(head, result.types, result.text)
  end
  local parts = { ("### %s(%s)"):format(called, table.concat(names, ", ")) }
  if each.text ~= "" then parts[#parts + 1] = markdown.text(each.text) end
  if #list > 0 then parts[#parts + 1] = table.concat(list, "\n") end
  return table.concat(parts, "\n\n")
end

--- A Markdown list of fields.
---@param fields moonring.AnnotatedParameter[]
---@return string
function markdown.fields(fields)
  local list = {}
  for i, each in ipairs(fields) do list[i] = named(each) end
  return table.concat(list, "\n")
end

return markdown
