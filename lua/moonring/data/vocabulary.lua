--- The vocabulary of a run: the tokenizer with added tokens, and embedding rows for these tokens.
-- As in LLaMA-Factory, add_tokens come first, then add_special_tokens, then the template's eos and
-- stop words. The tokens of the two keys turn resize_vocab on.
local config = require "moonring.config"
local configured_template = require "moonring.data.configured_template"
local data = require "moonring.data"
local errors = require "moonring.base.errors"
local jinja = require "moonring.data.jinja"
local system = require "moonring.native.system"
local templates = require "moonring.data.templates"

---@class moonring.vocabulary
local vocabulary = {}

local function texts(list)
  local found = {}
  for i, each in ipairs(list or {}) do found[i] = tostring(each) end
  return found
end

-- The tokens in the file that new_special_tokens_config names. The file also describes each token.
local function described(c)
  if c.init_special_tokens ~= "noise_init" then
    config.fail("not supported yet: init_special_tokens: ", c.init_special_tokens,
      "; new rows are initialized as with noise_init")
  end
  local path = c.new_special_tokens_config
  local key = "new_special_tokens_config"
  local tokens, lines = system.yaml_decode(errors.of_key(key, system.read, path), path)
  local list, at = {}, {}
  for token in pairs(type(tokens) == "table" and tokens or {}) do
    list[#list + 1] = token
    local line = type(token) == "string" and tonumber(lines[token])
    if not line or at[line] then
      config.fail("new_special_tokens_config: ", path,
        ": expected a line \"TOKEN\": \"description\" for each token")
    end
    at[line] = true
  end
  if #list == 0 then
    config.fail("new_special_tokens_config: ", path,
      ": expected a line \"TOKEN\": \"description\" for each token")
  end
  table.sort(list, function(a, b) return tonumber(lines[a]) < tonumber(lines[b]) end)
  return list
end

local function note(c, ...) c.notes[#c.notes + 1] = table.concat { ... } end

-- The first tokens of a list, formatted for a message.
local function shown(tokenizer, ids)
  local words = {}
  for i = 1, math.min(3, #ids) do
    words[i] = ("'%s' (%d)"):format(tokenizer:token_of(ids[i]), ids[i])
  end
  return table.concat(words, ", ") .. (#ids > 3 and ", ..." or "")
end

--- Whether a key changes the model's vocabulary: add_tokens, add_special_tokens,
--- new_special_tokens_config or resize_vocab. (The template may change it, too.)
---@param c moonring.Configuration
---@return boolean?
function vocabulary.asked(c)
  return (c.add_tokens or c.add_special_tokens or c.new_special_tokens_config or c.resize_vocab)
    and true
end

--- The tokenizer of a run: the model's, with the tokens of add_tokens and add_special_tokens, and
--- the template's stop tokens, if any. If these two keys add tokens, c.resize_vocab becomes true,
--- with a note in c.notes. `settle` chooses a template if none is named.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param settle? fun(c: moonring.Configuration, checkpoint: moonring.Checkpoint, tokenizer:
---   moonring.Tokenizer) configured_template.settle: chooses a template if none is named
---@return moonring.Tokenizer
function vocabulary.tokenizer(c, checkpoint, settle)
  local special = c.new_special_tokens_config and described(c) or texts(c.add_special_tokens)
  local given = data.tokenizer(checkpoint, { add_tokens = texts(c.add_tokens),
    add_special_tokens = special, split_special_tokens = c.split_special_tokens })
  if settle then settle(c, checkpoint, given) end
  local added = given:added_ids()
  if #added > 0 and not c.resize_vocab then
    c.resize_vocab = true
    note(c, "tokens were added, so resize_vocab is true: ", shown(given, added))
  end
  return c.template and data.template(configured_template.of(c), given):tokenizer() or given
end

-- General templates, not made for one model. If one is set, it replaces the model's chat template,
-- as in LLaMA-Factory.
local GENERAL = { alpaca = true, chatml = true, chatml_de = true, default = true, ernie_vl = true,
  fewshot = true, vicuna = true }

-- The chat template to be saved with the model. It is the configuration's template if that is a
-- general one or the model has none; otherwise nil.
local function chat_template(c, checkpoint, tokenizer)
  if type(c.template) ~= "string" or not (GENERAL[c.template]
    or not data.model_template(checkpoint, tokenizer)) then
    return nil
  end
  return jinja.text(templates.find(configured_template.of(c)), tokenizer)
end

-- Adds embedding rows for new tokens if resize_vocab is set. Updates the eos in the model's
-- configuration files if the eos token has a row.
local function make_room(c, checkpoint, tokenizer)
  local rows = checkpoint:vocab_size()
  if c.resize_vocab then checkpoint:grow_vocabulary(tokenizer:end_id(), c.seed) end
  if checkpoint:vocab_size() > rows then
    note(c, "resize_vocab: the vocabulary has ", checkpoint:vocab_size(), " rows, it had ", rows)
  end
  local eos = tokenizer:new_eos()
  if eos and eos < checkpoint:vocab_size() then checkpoint:end_with(eos) end
end

--- Returns the result of `tokenizer`, and adapts the checkpoint before models are loaded from it.
--- If resize_vocab is true, embedding rows are added for new tokens. The companion files to be
--- saved get the tokenizer, its eos, and a chat template (moonring.jinja) if the model has none.
--- Changes are noted in c.notes.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param settle? fun(c: moonring.Configuration, checkpoint: moonring.Checkpoint, tokenizer:
---   moonring.Tokenizer) configured_template.settle: chooses a template if none is named
---@return moonring.Tokenizer
function vocabulary.open(c, checkpoint, settle)
  local tokenizer = vocabulary.tokenizer(c, checkpoint, settle)
  local files = data.changed_files(checkpoint, tokenizer)
  if c.given.template then
    files["chat_template.jinja"] = chat_template(c, checkpoint, tokenizer)
  end
  checkpoint:replace_companions(files)
  make_room(c, checkpoint, tokenizer)
  return tokenizer
end

--- The result of `open`, or nil and the error if the model has no files of a tokenizer and the
--- configuration needs none.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@return moonring.Tokenizer?
---@return any why
function vocabulary.find(c, checkpoint)
  local ok, found = pcall(vocabulary.open, c, checkpoint)
  if ok then return found end
  if c.template or vocabulary.asked(c) or not errors.is(found, "NOT_FOUND") then error(found, 0) end
  return nil, found
end

--- Adds embedding rows for tokens in the data that have none, and sets c.resize_vocab to true.
--- Refuses such data if the user set resize_vocab: false. Adds notes about this, and about tokens
--- of the template that have no row, to c.notes. Call it before models are loaded. `train` is false
--- for a stream, whose tokens are not known yet.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param tokenizer moonring.Tokenizer
---@param train moonring.Dataset | false training data
---@param evals? { dataset: moonring.Dataset }[] evaluation data
function vocabulary.fit(c, checkpoint, tokenizer, train, evals)
  local rows = checkpoint:vocab_size()
  local function fit(name, dataset)
    local beyond = dataset:ids_from(rows)
    if #beyond == 0 or c.resize_vocab then return end
    local lacking = name .. ": the model's vocabulary has " .. rows .. " rows, none for "
      .. shown(tokenizer, beyond)
    if c.given.resize_vocab ~= nil then config.fail(lacking, "; resize_vocab: true makes them") end
    note(c, lacking, ": resize_vocab is true")
    c.resize_vocab = true
    make_room(c, checkpoint, tokenizer)
  end
  if train then fit("dataset", train) end
  for _, one in ipairs(evals or {}) do fit("eval_dataset", one.dataset) end
  local beyond = {}
  for _, id in ipairs(tokenizer:added_ids()) do
    if id >= checkpoint:vocab_size() then beyond[#beyond + 1] = id end
  end
  if #beyond > 0 then
    note(c, "the template adds tokens that the model has no rows for: ", shown(tokenizer, beyond),
      "; resize_vocab: true makes them")
  end
end

return vocabulary
