--- Chat with a model: a conversation that grows turn by turn.
local config = require "moonring.config"
local data = require "moonring.data"
local generation_stops = require "moonring.data.generation_stops"
local interrupted = require "moonring.model.interrupted"
local models = require "moonring.model"
local system = require "moonring.native.system"
local configured_template = require "moonring.data.configured_template"

---@class moonring.chat
local chat = {}

---@class moonring.Chat
---@field texts string[] the messages so far, user and model in turn, the user's first
---@field model moonring.Model
---@field tokenizer moonring.Tokenizer
---@field template moonring.Template
---@field sampling moonring.GenerateOptions
---@field shows_special boolean whether answers include their special tokens
local Chat = {}
Chat.__index = Chat

--- The configuration of `moonring chat`, with model_name_or_path and adapter_name_or_path set.
--- `path`: a model; an adapter's folder, whose base is that of its adapter_config.json, or
--- model_name_or_path; or a LLaMA-Factory YAML for inference; or absent: the words name the model.
---@param path? string
---@param words string[] keys and values
---@param allowed? moonring.KeyRow[] additional keys of the command
---@return moonring.Configuration
function chat.configuration(path, words, allowed)
  local yaml = not path or path:find "%.ya?ml$"
  local c = config.load(yaml and path or nil, words, allowed)
  if c.infer_dtype == "float16" then
    config.fail "infer_dtype: float16: answers are computed in float32 or bfloat16"
  end
  if c.infer_dtype == "bfloat16" and not c.bf16 then c.pure_bf16 = true end
  if not path or yaml then
    config.require_keys(c, { "model_name_or_path" })
    return c
  end
  local place = models.locate(path, c)
  local function has(name) return system.exists(place .. "/" .. name) end
  if has "config.json" or not has "adapter_config.json" then
    local other = c.model_name_or_path
    if other then config.fail("model_name_or_path=", other, ": ", path, " is the model already") end
    c.model_name_or_path = path
    return c
  end
  c.model_name_or_path = c.model_name_or_path or models.base_of_adapter(place)
  local adapters = {}
  for i, one in ipairs(c.adapter_name_or_path or {}) do adapters[i] = one end
  adapters[#adapters + 1] = path
  c.adapter_name_or_path = adapters
  return c
end

--- The configuration of a command's words: [MODEL|ADAPTER|CONFIG.yaml] and keys and values. Errors:
--- INVALID_ARGUMENT with the usage if no word names a model.
---@param words string[] `arg`
---@param usage string
---@return moonring.Configuration
function chat.command(words, usage)
  local path = config.path(words)
  if path then interrupted.refuse(path, "model", nil, usage:match "^moonring %l+") end
  local c = (path or words[1]) and chat.configuration(path, words)
  if not c then config.fail("usage: ", usage) end
  return c
end

-- The chat template that is stored with the model, as an object with those methods of
-- moonring.Template that a chat uses.
local Carried = {}
Carried.__index = Carried
Carried.whole = true -- it renders the whole prompt, including bos

function Carried:encode_prompt(texts)
  return self.carried:encode_prompt(texts, self.system, self.enable_thinking)
end
function Carried:encode_chat(request)
  return self.carried:encode_chat(request, self.system, self.enable_thinking)
end
function Carried:stop_ids() return self.stops end

--- The template of a chat: the one that the configuration names; otherwise the model's own,
--- rendered with default_system and enable_thinking if these are given; otherwise the template
--- `empty`. The stop ids of the model's own template are eos and those in generation_config.json.
--- The second result is a note for the log if there is no template.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param tokenizer moonring.Tokenizer
---@return moonring.Template template
---@return string? note
function chat.template(c, checkpoint, tokenizer)
  local carried = not c.template and data.model_template(checkpoint, tokenizer)
  local named = data.template(configured_template.of(carried and { template = "empty" } or c),
    tokenizer, c.default_system)
  if not carried then
    return named, not c.template and "template: none is given and the model carries none: `empty` "
      .. "is taken, texts as they are" or nil
  end
  local stops = named:stop_ids()
  for _, id in ipairs(generation_stops(checkpoint)) do stops[#stops + 1] = id end
  local thinking
  if c.given.enable_thinking ~= nil then thinking = c.enable_thinking end
  return setmetatable({ carried = carried, system = c.default_system, enable_thinking = thinking,
    stops = stops }, Carried)
end

--- The options of Model:generate, from max_new_tokens, temperature, top_k, top_p,
--- repetition_penalty, do_sample and seed. `otherwise` replaces an absent do_sample. If both are
--- absent, tokens are sampled if temperature, top_p or top_k is given, and chosen greedily if not.
---@param c moonring.Configuration
---@param otherwise? boolean
---@return moonring.GenerateOptions
function chat.sampling(c, otherwise)
  local sample = c.do_sample
  if sample == nil then sample = otherwise end
  if sample == nil then sample = (c.given.temperature or c.given.top_p or c.given.top_k) ~= nil end
  if sample and c.temperature <= 0 then
    config.fail("temperature: expected more than 0, got ", c.temperature,
      "; do_sample=false takes the likeliest token")
  end
  return {
    max_new_tokens = c.max_new_tokens,
    temperature = sample and c.temperature or 0,
    top_k = sample and c.top_k or 0,
    top_p = sample and c.top_p or 1,
    repetition_penalty = c.repetition_penalty,
    seed = c.seed,
  }
end

--- An empty conversation.
---@param model moonring.Model
---@param tokenizer moonring.Tokenizer
---@param template moonring.Template
---@param sampling moonring.GenerateOptions without stop_ids, which come from the template
---@param shows_special? boolean answers include their special tokens; default false
---@return moonring.Chat
function chat.new(model, tokenizer, template, sampling, shows_special)
  return setmetatable({ model = model, tokenizer = tokenizer, template = template,
    sampling = sampling, texts = {}, shows_special = shows_special or false }, Chat)
end

--- Clears the conversation.
function Chat:clear() self.texts = {} end

--- Answers `text`, given the conversation so far, and adds both to the conversation. The answer is
--- stored without its special tokens.
---@param text string
---@param on_text? fun(piece: string) called with each piece of the answer, in whole characters
---@param is_stopped? fun(): boolean called after each token; true ends the answer
---@return string
---@return integer count of its tokens
---@return boolean whether an end token ended it
function Chat:answer(text, on_text, is_stopped)
  self.texts[#self.texts + 1] = text
  local options = { stop_ids = self.template:stop_ids() }
  for name, value in pairs(self.sampling) do options[name] = value end
  local ids, shown = {}, 0
  local prompt, bos = self.template:encode_prompt(self.texts), self.tokenizer:leading_bos()
  -- The bos is added here, because some templates leave it to the tokenizer.
  if bos and prompt[1] ~= bos and not self.template.whole then table.insert(prompt, 1, bos) end
  local skips = not self.shows_special
  local all = self.model:generate(prompt, options, function(id)
    ids[#ids + 1] = id
    local whole = self.tokenizer:decode(ids, skips)
    -- U+FFFD at the end: the last character is still incomplete.
    if on_text and whole:sub(-3) ~= "\239\191\189" then
      on_text(whole:sub(shown + 1))
      shown = #whole
    end
    return not (is_stopped and is_stopped())
  end)
  local answer = self.tokenizer:decode(skips and ids or all, skips) -- with its end token
  if on_text and shown < #answer then on_text(answer:sub(shown + 1)) end
  self.texts[#self.texts + 1] = self.tokenizer:decode(ids, true)
  return answer, #all, #all > #ids
end

return chat
