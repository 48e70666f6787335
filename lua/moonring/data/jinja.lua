--- A named template as Jinja, for a model to carry: what other programs talk with it by.
-- Conversations of system, user and assistant; tools and thoughts are not in it.
local system = require "moonring.native.system"

---@class moonring.jinja
local jinja = {}

-- A text as an expression: JSON's way of writing one is Jinja's too.
local function literal(text) return system.json_encode(text) end

-- Slots as an expression in which `name` is the text; nil where they cannot be one: with the turn's
-- number in it.
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

--- The text of chat_template.jinja: conversations of system, user and assistant, rendered as the
--- template encodes them. Nil where Jinja cannot say it (turns that are numbered).
---@param template table a complete one (moonring.templates.find)
---@param tokenizer moonring.Tokenizer that the template made
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
