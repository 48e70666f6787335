---@meta moonring.chat

--- Talking with a model: a conversation that grows turn by turn.
---@class moonring.chat
local chat = {}

--- What to talk with, of the words of `moonring chat`: model_name_or_path and adapter_name_or_path
--- are settled. `path`: a model; an adapter's folder, whose base is the one that its
--- adapter_config.json names, or model_name_or_path; or a YAML, as LLaMA-Factory's for inference.
---@param path string
---@param words string[] key=value
---@return moonring.Configuration
function chat.configuration(path, words) end

--- The template to talk by: the configuration's; else the one that the model carries, rendered whole with default_system and enable_thinking where they are given; else
--- `empty`. It has encode_prompt and stop_ids: of the model's own these are eos and what generation_config.json names. And a line that says so where there is none.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param tokenizer moonring.Tokenizer
---@return moonring.Template template
---@return string? note
function chat.template(c, checkpoint, tokenizer) end

--- The options of `model:generate` by max_new_tokens, temperature, top_k, top_p, repetition_penalty, do_sample and seed. Without do_sample:
--- drawn where temperature, top_p or top_k is given, else the likeliest token.
---@param c moonring.Configuration
---@return moonring.GenerateOptions
function chat.sampling(c) end

--- A conversation in which nothing was said yet.
---@param model moonring.Model
---@param tokenizer moonring.Tokenizer
---@param template moonring.Template
---@param sampling moonring.GenerateOptions without stop_ids, which are the template's
---@return moonring.Chat
function chat.new(model, tokenizer, template, sampling) end

---@class moonring.Chat
---@field texts string[] what was said, in turns, the user's first
---@field model moonring.Model
---@field tokenizer moonring.Tokenizer
---@field template moonring.Template
---@field sampling moonring.GenerateOptions
local Chat = {}

--- Forgets what was said.
function Chat:clear() end

--- The answer to `text` after all that was said; both are remembered.
---@param text string
---@param on_text? fun(piece: string) sees the answer piece by piece, never half a character
---@return string
function Chat:answer(text, on_text) end

return chat
