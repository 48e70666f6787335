--- `moonring.data`: the native functions for data. In addition they accept checkpoints, whose
-- companion files they read, and names of templates. Other modules of this folder: datasets.lua
-- (data sets of a configuration), source.lua, rows.lua and custom_data.lua (custom sources),
-- templates.lua, vocabulary.lua, jinja.lua.
local native = require "moonring.native.data"
local rows_of_files = require "moonring.data.rows"
local source = require "moonring.data.source"
local templates = require "moonring.data.templates"

---@class moonring.data: moonring.native.data
local data = {}

--- Options of data.load, data.stream and data.load_tokenized: those of the native functions, except
--- for `template`, which is a name, the path of a file (*.lua) or a table; default "default".
---@alias moonring.NamedTemplateOptions table
for name, bound in pairs(native) do data[name] = bound end

-- Files that a tokenizer may be loaded from.
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

--- Loads the tokenizer of a checkpoint: tokenizer.json, otherwise a sentencepiece model or
--- tiktoken's ranks (tokenizer.model, spiece.model, qwen.tiktoken), otherwise vocab.json and
--- merges.txt. Errors: NOT_FOUND if it has none of them; UNIMPLEMENTED names an unsupported
--- component.
---@param checkpoint moonring.Checkpoint
---@param options? moonring.TokenizerOptions
---@return moonring.Tokenizer
function data.tokenizer(checkpoint, options)
  return native.tokenizer(companions(checkpoint, TOKENIZER), checkpoint:path(), options)
end

--- The tokenizer files of a checkpoint, as changed by tokens that were added; empty if none were
--- added.
---@param checkpoint moonring.Checkpoint
---@param tokenizer moonring.Tokenizer
---@return table<string, string> files name -> contents
function data.changed_files(checkpoint, tokenizer)
  return native.changed_files(companions(checkpoint, TOKENIZER), tokenizer)
end

--- Creates a chat template for a tokenizer. If the tokenizer lacks a token that ends an answer, the
--- token is added: see Template:tokenizer. Errors: NOT_FOUND, with the nearest name;
--- INVALID_ARGUMENT if a slot names a token that the tokenizer lacks, and the tokenizer has no
--- unknown token.
---@param template string | moonring.TemplateTable its name, the path of a file, or its fields
---@param tokenizer moonring.Tokenizer
---@param system? string replaces the template's default system text; "" for none
---@return moonring.Template
function data.template(template, tokenizer, system)
  return native.template(templates.find(template), tokenizer, system)
end

--- The chat template that is stored with a checkpoint; nil if there is none. It is
--- chat_template.jinja, otherwise chat_template in tokenizer_config.json (of several the one named
--- "default"). Errors: INVALID_ARGUMENT, with the template's line, if it is malformed;
--- UNIMPLEMENTED, with the name of an unsupported feature of Jinja2.
---@param checkpoint moonring.Checkpoint
---@param tokenizer moonring.Tokenizer
---@return moonring.ModelTemplate?
function data.model_template(checkpoint, tokenizer)
  return native.model_template(companions(checkpoint, TEMPLATE), tokenizer, checkpoint:path())
end

--- Prepares data sets in memory. Returns the training set, and the set of val_size examples that
--- are split off it, or nil.
---@param options moonring.NamedTemplateOptions moonring.WholeDatasetOptions otherwise
---@return moonring.Dataset
---@return moonring.Dataset?
function data.load(options) return native.load(with_template(options)) end

--- Opens data sets that are read during training (streaming).
---@param options moonring.NamedTemplateOptions moonring.StreamOptions otherwise
---@return moonring.Stream
function data.stream(options) return native.stream(with_template(options)) end

--- Creates a custom data source, for run.open's option `data` or for a file that the key
--- data_source names. It is a table with `next` and, to resume without reading all rows again,
--- `state` and `load_state`; or a function that returns row after row and nil at the end; or a
--- coroutine that yields rows. It runs on every rank and must return the same rows on all. Errors:
--- INVALID_ARGUMENT.
---@param given moonring.SourceTable | thread | (fun(): moonring.SourceRow?) | moonring.Source
---@return moonring.Source
function data.source(given) return source.new(given) end

--- Reads the rows of a json, jsonl, csv, txt, parquet or arrow file (or of a list of such files),
--- or of a named data set. The result can be used as a source. Another source may also call its
--- functions rows.next(), rows.state() and rows.load_state(state). Errors: NOT_FOUND;
--- INVALID_ARGUMENT, for a row with its file and line.
---@param what string | string[] path of a file, or several; with dataset_dir a name
---@param given? moonring.RowsOptions
---@return moonring.SourceTable
function data.rows(what, given) return rows_of_files.open(what, given) end

--- Loads prepared data sets (tokenized_path) by split.
---@param options moonring.NamedTemplateOptions moonring.TokenizedOptions otherwise
---@return table<string, moonring.Dataset>
function data.load_tokenized(options) return native.load_tokenized(with_template(options)) end

return data
