---@meta moonring.templates

--- Chat templates by name, as tables; lua/moonring/templates.lua says what each field means and how to add one.
---@class moonring.templates
local templates = {}

--- Texts and tokens, each tokenised alone: a text, or a list of texts, `{ "bos" }`, `{ "eos" }` and `{ token = "<|user|>" }`.
---@alias moonring.Slots string | table[]

---@class moonring.TemplateTable
---@field name? string
---@field like? string the template whose fields it has where it says nothing itself: a name or a path
---@field class? "plain" | "system_in_user" | "reasoning"
---@field prefix? moonring.Slots
---@field system? moonring.Slots
---@field user? moonring.Slots
---@field assistant? moonring.Slots
---@field function_call? moonring.Slots
---@field observation? moonring.Slots
---@field tools? string
---@field tool_format? string
---@field default_system? string
---@field stop_words? string[]
---@field replace_eos? boolean
---@field efficient_eos? boolean
---@field thought_words? string[] two
---@field empty_thought? string
---@field tool_call_words? string[] two
---@field date? string
---@field enable_thinking? boolean
---@field preserve_thinking? boolean

--- The names of all templates, sorted.
---@return string[]
function templates.names() end

--- A template with every field at its value or its default, as the cores read it. Errors: NOT_FOUND, with the nearest name; INVALID_ARGUMENT for a
--- field that no template has, or a value of a wrong type.
---@param template string | moonring.TemplateTable its name, the path of a file (*.lua), or its fields
---@return table
function templates.find(template) end

--- Settles the template of a configuration that names none, as LLaMA-Factory does: what can be told of the one that the model carries, else `empty`; in stage pt
--- always that. Adds a line to c.notes. Errors: INVALID_ARGUMENT where the model's cannot be used.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param tokenizer moonring.Tokenizer
function templates.settle(c, checkpoint, tokenizer) end

--- The name of a configuration's template; `empty` where it has none.
---@param c moonring.Configuration
---@return string
function templates.name(c) end

--- The template of a configuration, as its keys tool_format, enable_thinking and preserve_thinking change it; `empty` where it has none.
---@param c moonring.Configuration
---@return moonring.TemplateTable
function templates.of(c) end

return templates
