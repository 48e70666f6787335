---@meta moonring.jinja

--- A named template as Jinja, for a model to carry.
---@class moonring.jinja
local jinja = {}

--- The text of chat_template.jinja: conversations of system, user and assistant, rendered as the template encodes them. Nil where Jinja cannot say it (turns that
--- are numbered).
---@param template table a complete one (moonring.templates.find)
---@param tokenizer moonring.Tokenizer that the template made
---@return string?
function jinja.text(template, tokenizer) end

return jinja
