--- The vocabulary of a run: its tokenizer, with the tokens that the configuration and the template
-- add to it, and room for them in the model. As LLaMA-Factory: first add_tokens, then
-- add_special_tokens, then the template's eos and stop words; tokens of the two keys turn
-- resize_vocab on.
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

-- The keys of a file of tokens and their descriptions, in its order.
local function described(c)
  if c.init_special_tokens ~= "noise_init" then
    config.fail("not supported yet: init_special_tokens: ", c.init_special_tokens,
      "; rows begin as noise_init says")
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
        ": wanted a line \"TOKEN\": \"description\" for each token")
    end
    at[line] = true
  end
  if #list == 0 then
    config.fail("new_special_tokens_config: ", path,
      ": wanted a line \"TOKEN\": \"description\" for each token")
  end
  table.sort(list, function(a, b) return tonumber(lines[a]) < tonumber(lines[b]) end)
  return list
end

local function note(c, ...) c.notes[#c.notes + 1] = table.concat { ... } end

-- A few of the tokens, as a message shows them.
local function shown(tokenizer, ids)
  local words = {}
  for i = 1, math.min(3, #ids) do
    words[i] = ("'%s' (%d)"):format(tokenizer:token_of(ids[i]), ids[i])
  end
  return table.concat(words, ", ") .. (#ids > 3 and ", ..." or "")
end

--- Whether add_tokens, add_special_tokens, new_special_tokens_config or resize_vocab asks for
--- another vocabulary than the model's own. The template may, too.
---@param c moonring.Configuration
---@return boolean?
function vocabulary.asked(c)
  return (c.add_tokens or c.add_special_tokens or c.new_special_tokens_config or c.resize_vocab)
    and true
end

--- The tokenizer of a run: the model's own, then add_tokens, add_special_tokens, and what the
--- template, where there is one, ends answers with. New tokens of the two keys make c.resize_vocab
--- true; c.notes says so.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param settle? fun(c: moonring.Configuration, checkpoint: moonring.Checkpoint, tokenizer:
---   moonring.Tokenizer) moonring.templates.settle: finds a template where none is named
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

-- Templates of no model's own: where one is asked for, it stands in place of what the model
-- carries, as in LLaMA-Factory.
local GENERAL = { alpaca = true, chatml = true, chatml_de = true, default = true, ernie_vl = true,
  fewshot = true, vicuna = true }

-- The chat template that the model is to carry from now on: the configuration's, where it names one
-- and the model carries none or a general one was asked for.
local function chat_template(c, checkpoint, tokenizer)
  if type(c.template) ~= "string" or not (GENERAL[c.template]
    or not data.model_template(checkpoint, tokenizer)) then
    return nil
  end
  return jinja.text(templates.find(configured_template.of(c)), tokenizer)
end

-- Rows for every token, where resize_vocab asks for them, and the eos in the configuration files
-- where it has a row.
local function make_room(c, checkpoint, tokenizer)
  local rows = checkpoint:vocab_size()
  if c.resize_vocab then checkpoint:grow_vocabulary(tokenizer:end_id(), c.seed) end
  if checkpoint:vocab_size() > rows then
    note(c, "resize_vocab: the vocabulary has ", checkpoint:vocab_size(), " rows, it had ", rows)
  end
  local eos = tokenizer:new_eos()
  if eos and eos < checkpoint:vocab_size() then checkpoint:end_with(eos) end
end

--- The same, and the checkpoint made to fit it, before models are loaded from it: rows for every
--- token where resize_vocab is true, and what is saved beside them: the tokenizer's files, its eos,
--- a chat template (moonring.jinja) where the model carries none. c.notes says what changed.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param settle? fun(c: moonring.Configuration, checkpoint: moonring.Checkpoint, tokenizer:
---   moonring.Tokenizer) moonring.templates.settle: finds a template where none is named
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

--- Makes rows for tokens that data holds and the model has none for, and c.resize_vocab true;
--- refuses such data where resize_vocab: false was given. c.notes says so, and which of the
--- template's other tokens have no row. Before models are loaded.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param tokenizer moonring.Tokenizer
---@param train moonring.Dataset | false what is learnt from; false: a stream, whose tokens show as
---   it is used
---@param evals? { dataset: moonring.Dataset }[] what is evaluated
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
