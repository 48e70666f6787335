--- Data as scripts see it: the native functions of data/, with models' own files and templates by
-- their names. The rest of the room: datasets.lua (what a configuration names), templates.lua,
-- vocabulary.lua, jinja.lua.
local native = require "moonring.native.data"
local templates = require "moonring.data.templates"

local data = {}
for name, bound in pairs(native) do data[name] = bound end

-- What a tokenizer may be made of.
local TOKENIZER = { "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
  "added_tokens.json", "tokenizer.model", "spiece.model", "qwen.tiktoken", "tekken.json",
  "vocab.json", "merges.txt" }
local TEMPLATE = { "chat_template.jinja", "tokenizer_config.json", "tokenizer.json" }

local function companions(checkpoint, names)
  local files = {}
  for _, name in ipairs(names) do files[name] = checkpoint:companion(name) end
  return files
end

local function with_template(options)
  local whole = {}
  for name, value in pairs(options) do whole[name] = value end
  whole.template = templates.find(options.template or "default")
  return whole
end

--- The tokenizer that a checkpoint carries.
function data.tokenizer(checkpoint, options)
  return native.tokenizer(companions(checkpoint, TOKENIZER), checkpoint:path(), options)
end

--- Those of a checkpoint's files that its tokenizer, with tokens added, wants otherwise.
function data.changed_files(checkpoint, tokenizer)
  return native.changed_files(companions(checkpoint, TOKENIZER), tokenizer)
end

--- A chat template by its name, the path of its file, or its table (templates.lua).
function data.template(template, tokenizer, default_system)
  return native.template(templates.find(template), tokenizer, default_system)
end

--- The chat template that a checkpoint carries, or nil.
function data.model_template(checkpoint, tokenizer)
  return native.model_template(companions(checkpoint, TEMPLATE), tokenizer, checkpoint:path())
end

function data.load(options) return native.load(with_template(options)) end

function data.stream(options) return native.stream(with_template(options)) end

function data.load_tokenized(options) return native.load_tokenized(with_template(options)) end

return data
