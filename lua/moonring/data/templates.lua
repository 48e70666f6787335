--- Finds chat templates by name or path. Those of LLaMA-Factory 0.9.5 are in the files of
-- named_templates/, one file per family, each a list of named tables. A custom template is a file
-- that returns a template's table, and is given by its path: `template: ./mine.lua`. Files are
-- loaded without globals. template_fields.lua describes the fields.
local errors = require "moonring.base.errors"
local fields = require "moonring.data.template_fields"
local system = require "moonring.native.system"

---@class moonring.templates
local templates = {}

local function fail(...) errors.fail("template: ", ...) end

local function keys(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  return names
end

local function read(path)
  local chunk, why = load(system.read(path), "@" .. path, "t", {})
  if not chunk then fail(why) end
  local done, value = pcall(chunk)
  if not done then fail(tostring(value)) end
  return value
end

local named -- all of named_templates/, loaded on first use

local function by_name()
  if named then return named end
  local found, folder = {}, (system.module_path "data.templates"):gsub("templates%.lua$",
    "named_templates")
  for _, file in ipairs(system.list(folder)) do
    for _, template in ipairs(file:find "%.lua$" and read(folder .. "/" .. file) or {}) do
      local where = file .. ": " .. tostring(template.name)
      fields.check(template, where)
      if found[template.name] then fail(where, " is there twice") end
      found[template.name] = template
    end
  end
  named = found
  return named
end

--- The names of all templates, sorted.
---@return string[]
function templates.names() return keys(by_name()) end

-- Raises an error for an unknown name, with the nearest name, and names with the same beginning.
-- `where` is the template that refers to the unknown name by `like`.
local function unknown(name, where)
  local alike, all = {}, templates.names()
  for _, other in ipairs(all) do
    if #alike < 12 and other:sub(1, 3) == name:sub(1, 3):lower() then alike[#alike + 1] = other end
  end
  local list = #alike > 0 and "there are " .. table.concat(alike, ", ") .. " and others"
    or "there are chatml, default, llama3, qwen and others"
  errors.raise("NOT_FOUND", "template: ", where and where .. ": like: " or "", "no '", name, "'",
    system.did_you_mean(name, all), "; ", list, ": moonring help templates lists all ", #all)
end

-- Reads the file of a custom template. Native code identifies templates by name, so the path is
-- added to the name in the file. A name that named_templates/ also has is kept, because native code
-- has special behaviour for it.
local function read_own(path)
  local own = read(path)
  fields.check(own, path)
  if not own.name then
    own.name = path
  elseif not by_name()[own.name] then
    own.name = ("%s (%s)"):format(own.name, path)
  end
  return own
end

-- Resolves a name or path, and merges in the fields of the template that `like` names. Also returns
-- what to call the template in messages: the file's path, otherwise its name, otherwise that of
-- `like`.
local function expand(template, depth, where)
  local place
  if type(template) == "string" then
    if template:find "%.lua$" then
      place, template = template, read_own(template)
    else
      template = by_name()[template] or unknown(template, where)
    end
  end
  place = place or template.name
  if not template.like then return template, place end
  if depth > 10 then fail(tostring(place), ": like goes round in a circle") end
  local whole = {}
  local like, of_like = expand(template.like, depth + 1, place)
  for name, value in pairs(like) do whole[name] = value end
  for name, value in pairs(template) do whole[name] = value end
  whole.like = nil
  if template.thought_words then whole.thought_written = template.thought_written end
  return whole, place or of_like
end

--- A complete template for the native code: absent fields are set to their defaults. Errors:
--- NOT_FOUND, with the nearest name; INVALID_ARGUMENT for an unknown field or a value of a wrong
--- type.
---@param template string | moonring.TemplateTable name, path of a file (*.lua), or fields
---@return table
function templates.find(template)
  if type(template) ~= "string" and type(template) ~= "table" then
    fail("expected a name, the path of a file or a table, got a ", type(template))
  end
  if type(template) == "table" then
    fields.check(template, tostring(template.name or template.like))
  end
  local t, place = expand(template, 0)
  local where, class = place or "own", t.class or "plain"
  local trim = t.thought_trim or "newlines"
  fields.check_words(class, trim, where)
  local content = "{{content}}"
  local thought, call = t.thought_words or { "<think>\n", "\n</think>\n\n" }, t.tool_call_words
    or { "<tool_call>", "</tool_call>" }
  local written = t.thought_written or thought
  local assistant, user = t.assistant or (t.efficient_eos and content or { content, { "eos" } }),
    t.user or content
  local lists = { prefix = t.prefix or {}, system = t.system or content, user = user,
    assistant = assistant, function_call = t.function_call or assistant,
    observation = t.observation or user }
  local complete = {
    name = t.name or "own", class = class, tool_format = t.tool_format or "default", tools = t.tools
      or "", date = t.date or "", default_system = t.default_system or "",
    stop_words = t.stop_words or {}, thought_begin = thought[1], thought_end = thought[2],
      empty_thought = t.empty_thought or thought[1] .. thought[2],
    writes_thoughts = class == "reasoning" or t.thought_written ~= nil,
    written_begin = written[1], written_end = written[2], before_text = written[3] or "",
      thought_trim = trim,
    tool_call_begin = call[1], tool_call_end = call[2], replace_eos = t.replace_eos or false,
      efficient_eos = t.efficient_eos or false,
    preserve_thinking = t.preserve_thinking or false,
  }
  complete.enable_thinking = t.enable_thinking == nil or t.enable_thinking
  if t.enable_thinking == system.null then complete.enable_thinking = nil end
  for _, name in ipairs(fields.slots) do
    complete[name] = fields.read_slots(lists[name], where .. ": " .. name)
  end
  if class == "system_in_user" and (#complete.system ~= 1 or complete.system[1].kind ~= "text") then
    fail(where, ": system: of class system_in_user one text is expected")
  end
  if complete.replace_eos and #complete.stop_words == 0 then
    fail(where, ": replace_eos requires a stop word")
  end
  return complete
end

return templates
