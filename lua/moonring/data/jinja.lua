--- Converts a named template to a Jinja chat template, which is saved with a model for other
-- programs. It covers system, user and assistant messages, but no tools and no thoughts.
local system = require "moonring.native.system"

---@class moonring.jinja
local jinja = {}

-- Writes a text as a string literal of Jinja, for which JSON's syntax is valid.
local function literal(text) return system.json_encode(text) end

-- Converts slots to a Jinja expression, with the variable `name` in place of the text; nil if they
-- contain the turn's number, which Jinja cannot express here.
local function expression(slots, name, tokenizer)
  local terms = {}
  local function say(text)
    if text ~= "" then terms[#terms + 1] = literal(text) end
  end
  for _, slot in ipairs(slots) do
    if slot.kind == "text" then
      if slot.text:find("{{idx}}", 1, true) then return nil end
      local from, to = slot.text:find("{{content}}", 1, true)
      say(slot.text:sub(1, (from or 0) - 1))
      if from then
        terms[#terms + 1] = name
        say(slot.text:sub(to + 1))
      end
    else
      local id = slot.kind == "bos" and tokenizer:bos() or slot.kind == "eos" and tokenizer:eos()
        or nil
      say(slot.kind == "token" and slot.text or id and tokenizer:token_of(id) or "")
    end
  end
  return #terms > 0 and table.concat(terms, " + ") or '""'
end

--- The text of chat_template.jinja. It renders conversations of system, user and assistant messages
--- as the template encodes them. nil if the template numbers the turns, which Jinja cannot express.
---@param template table a complete template (moonring.templates.find)
---@param tokenizer moonring.Tokenizer the template's tokenizer
---@return string?
function jinja.text(template, tokenizer)
  local prefix = expression(template.prefix, "", tokenizer)
  local said = expression(template.system, "system_message", tokenizer)
  local user, assistant = expression(template.user, "content", tokenizer),
    expression(template.assistant, "content", tokenizer)
  if not user or not assistant then return nil end
  local in_user = template.class == "system_in_user"
  local content = in_user and "(" .. said .. " if loop.first and system_message else \"\") + "
    .. "message['content']" or "message['content']"
  local lines = {
    "{%- if messages[0]['role'] == 'system' -%}",
    "  {%- set system_message = messages[0]['content'] or " .. literal(template.default_system)
      .. " -%}",
    "  {%- set turns = messages[1:] -%}",
    "{%- else -%}",
    "  {%- set system_message = " .. literal(template.default_system) .. " -%}",
    "  {%- set turns = messages -%}",
    "{%- endif -%}",
    "{{- " .. prefix .. " -}}",
    "{%- for message in turns -%}",
    "  {%- set content = " .. content .. " -%}",
    "  {%- if message['role'] == 'user' -%}",
    "    {{- " .. user .. " -}}",
    "  {%- elif message['role'] == 'assistant' -%}",
    "    {{- " .. assistant .. " -}}",
    "  {%- endif -%}",
    "{%- endfor -%}",
  }
  if not in_user then
    table.insert(lines, 9, "{%- if system_message -%}{{- " .. said .. " -}}{%- endif -%}")
  end
  return table.concat(lines, "\n")
end

return jinja
