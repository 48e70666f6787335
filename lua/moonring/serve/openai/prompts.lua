--- The field `prompt` of a completion: a text, token ids, or a list of either.
local errors = require "moonring.base.errors"
local request_fields = require "moonring.serve.openai.request_fields"

---@class moonring.serve.openai.prompts
local prompts = {}

local MOST = 4096 -- answers of a request, over all prompts

local function is_text(value) return type(value) == "string" end
local function is_id(value) return type(value) == "number" and value % 1 == 0 end
local function are_ids(value) return request_fields.is_list(value, is_id) end

-- The prompts as a list of texts or of lists of ids.
local function listed(prompt)
  if is_text(prompt) then return { prompt } end
  if type(prompt) == "table" and prompt[1] ~= nil then
    if request_fields.is_list(prompt, is_text) or request_fields.is_list(prompt, are_ids) then
      return prompt
    end
    if are_ids(prompt) then return { prompt } end
  end
  errors.fail("prompt: expected a text, a list of texts, a list of token ids, or a list of such ",
    "lists, got ", type(prompt) ~= "table" and type(prompt) or next(prompt) == nil
      and "an empty list" or "another list or object")
end

--- Token ids of a text. No special tokens are added, unless `add_bos`: then the bos, if the
--- tokenizer puts one before each text.
---@param text string
---@param tokenizer moonring.Tokenizer
---@param add_bos boolean
---@return integer[]
function prompts.encode(text, tokenizer, add_bos)
  local ids, bos = tokenizer:encode(text), add_bos and tokenizer:leading_bos()
  if bos and ids[1] ~= bos then table.insert(ids, 1, bos) end
  return ids
end

--- Reads the prompts of a request. Errors: INVALID_ARGUMENT.
---@param read table its fields
---@param tokenizer moonring.Tokenizer
---@return { ids: integer[], text: string }[]
function prompts.read(read, tokenizer)
  local list = {}
  for i, prompt in ipairs(listed(read.prompt)) do
    if is_text(prompt) then
      list[i] = { ids = prompts.encode(prompt, tokenizer, read.add_special_tokens), text = prompt }
    else
      list[i] = { ids = prompt, text = read.echo and tokenizer:decode(prompt) or "" }
    end
  end
  if #list * read.n > MOST then
    errors.fail("prompt: ", #list, " prompts with n = ", read.n, "; expected at most ", MOST,
      " answers")
  end
  return list
end

--- Makes the first token fit the prompt's text. A bos that was put before the text is not shown in
--- it. A space that some tokenizers put before a text is removed from the token.
---@param tokens moonring.serve.openai.Token[]
---@param text string
---@return moonring.serve.openai.Token[] tokens
function prompts.fit_first(tokens, text)
  local first, length = tokens[1], 0
  if not first then return tokens end
  if first.is_special and text:sub(1, #first.bytes) ~= first.bytes then first.is_shown = false end
  for _, token in ipairs(tokens) do length = length + (token.is_shown and #token.bytes or 0) end
  local shown = first.is_shown and first or tokens[2]
  if length == #text + 1 and shown.bytes:sub(1, 1) == " " then shown.bytes = shown.bytes:sub(2) end
  return tokens
end

return prompts
