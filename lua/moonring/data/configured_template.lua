--- Selects the chat template of a run: the configuration's, or the model's own.
local data = require "moonring.data"
local errors = require "moonring.base.errors"
local stages = require "moonring.choices.stages"
local system = require "moonring.native.system"
local templates = require "moonring.data.templates"

---@class moonring.configured_template
local configured = {}

--- Chooses a template if the configuration names none, as LLaMA-Factory does: a template derived
--- from the model's chat_template if there is one, otherwise `empty`. Stage pt always uses `empty`,
--- because it trains on plain texts. Adds a note to c.notes.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint | moonring.TokenizerFiles
---@param tokenizer moonring.Tokenizer
function configured.settle(c, checkpoint, tokenizer)
  if c.template then return end
  c.template = "empty"
  if stages.of(c).reads == "pt" then return end -- plain texts need no template
  local carried, note = data.model_template(checkpoint, tokenizer),
    "template: none is given and the model carries none: `empty` is taken, texts as they are"
  if carried and carried:is_one_of_several() then
    note = "template: none is given and the model carries several: `empty` is taken, as "
      .. "LLaMA-Factory does, texts as they are"
  elseif carried then
    local done, fields = pcall(carried.fields, carried)
    if not done then
      errors.reword(fields, "template: none is given, and the "
        .. "model's chat_template cannot be used: ", errors.words(fields),
        "; name one: template: NAME")
    end
    local written = carried:thoughts()
    if #written > 0 then
      fields.thought_written, fields.thought_trim = { written[1], written[2] }, written[3]
    end
    c.template, note = fields, "template: none is given: taken from the model's chat_template"
  end
  c.notes[#c.notes + 1] = note
end

--- The name of a configuration's template, for display and for comparisons.
---@param c moonring.Configuration
---@return string
function configured.name(c) return type(c.template) == "table" and c.template.name or c.template
  or "empty" end

--- The template of a configuration, modified by tool_format, enable_thinking and preserve_thinking;
--- `empty` if none is set.
---@param c moonring.Configuration
---@return moonring.TemplateTable
function configured.of(c)
  local own = { preserve_thinking = c.preserve_thinking, enable_thinking = c.enable_thinking }
  if type(c.template) == "table" then
    for name, value in pairs(c.template) do own[name] = value end
  else
    own.like = c.template or "empty"
  end
  if c.enable_thinking == nil then own.enable_thinking = system.null end
  if c.tool_format then
    own.tool_format, own.tools = c.tool_format, ""
    own.function_call = templates.find(own).efficient_eos and "{{content}}"
      or { "{{content}}", { "eos" } } -- as in LLaMA-Factory: not the assistant's slots
  end
  return own
end

return configured
