--- Conversations as token ids, by the template of a base model: the one that the configuration
-- names, otherwise the model's own.
local chat = require "moonring.run.chat"

---@class moonring.serve.openai.chat_prompts
local chat_prompts = {}

local function template_of(service, base)
  if not base.chat_template then
    local template, note = chat.template(base.config, base.checkpoint, base:words())
    base.chat_template = template
    if note then service:note(base.name .. ": " .. note) end
  end
  return base.chat_template
end

--- The prompt of a request with `messages`. Errors: INVALID_ARGUMENT, with the message's number.
---@param service moonring.Service
---@param base moonring.serve.Base
---@param body string the request's JSON, in which the client's order of keys is that of the prompt
---@return integer[] ids
---@return integer[] stop_ids that end an answer
function chat_prompts.encode(service, base, body)
  local template = template_of(service, base)
  local ids = template:encode_chat(body)
  local bos = base:words():leading_bos()
  if bos and ids[1] ~= bos and not template.whole then table.insert(ids, 1, bos) end
  return ids, template:stop_ids()
end

return chat_prompts
