--- Data as scripts see it: the native functions of data/, with models' own files and templates by
-- their names. The rest of the room: datasets.lua (what a configuration names), source.lua,
-- rows.lua and own_data.lua (data of a script's own), templates.lua,
-- vocabulary.lua, jinja.lua.
local native = require "moonring.native.data"
local rows_of_files = require "moonring.data.rows"
local source = require "moonring.data.source"
local templates = require "moonring.data.templates"

---@class moonring.data: moonring.native.data
local data = {}

--- Of data.load, data.stream and data.load_tokenized: the native functions' options, but for
--- `template`, which is a name, the path of a file (*.lua) or a table; "default" where absent.
---@alias moonring.NamedTemplateOptions table
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

--- The tokenizer that a checkpoint carries. From tokenizer.json, else a sentencepiece model or
--- tiktoken's ranks (tokenizer.model, spiece.model, qwen.tiktoken), else vocab.json and merges.txt.
--- Errors: NOT_FOUND where it has none of them; UNIMPLEMENTED names the part of it that is not
--- supported.
---@param checkpoint moonring.Checkpoint
---@param options? moonring.TokenizerOptions
---@return moonring.Tokenizer
function data.tokenizer(checkpoint, options)
  return native.tokenizer(companions(checkpoint, TOKENIZER), checkpoint:path(), options)
end

--- Those of a checkpoint's files that its tokenizer, with tokens added, wants otherwise; none where
--- nothing was added.
---@param checkpoint moonring.Checkpoint
---@param tokenizer moonring.Tokenizer
---@return table<string, string> files name -> contents
function data.changed_files(checkpoint, tokenizer)
  return native.changed_files(companions(checkpoint, TOKENIZER), tokenizer)
end

--- A chat template for a tokenizer. What ends its answers and the tokenizer lacks is added to it:
--- see Template:tokenizer. Errors: NOT_FOUND, with the nearest name; INVALID_ARGUMENT where a slot
--- names a token that the tokenizer lacks, and it has no unknown one.
---@param template string | moonring.TemplateTable its name, the path of a file, or its fields
---@param tokenizer moonring.Tokenizer
---@param system? string in place of the template's own system text; "" for none
---@return moonring.Template
function data.template(template, tokenizer, system)
  return native.template(templates.find(template), tokenizer, system)
end

--- The chat template that a checkpoint carries, or nil: chat_template.jinja, else
--- tokenizer_config.json's chat_template (of several the one called "default"). Errors:
--- INVALID_ARGUMENT, with the template's line, where it cannot be read; UNIMPLEMENTED names what of
--- Jinja2 is not supported.
---@param checkpoint moonring.Checkpoint
---@param tokenizer moonring.Tokenizer
---@return moonring.ModelTemplate?
function data.model_template(checkpoint, tokenizer)
  return native.model_template(companions(checkpoint, TEMPLATE), tokenizer, checkpoint:path())
end

--- Prepares data sets: the one to learn from, and what val_size holds out of it or nil.
---@param options moonring.NamedTemplateOptions moonring.WholeDatasetOptions otherwise
---@return moonring.Dataset
---@return moonring.Dataset?
function data.load(options) return native.load(with_template(options)) end

--- Data sets that are read as they are used.
---@param options moonring.NamedTemplateOptions moonring.StreamOptions otherwise
---@return moonring.Stream
function data.stream(options) return native.stream(with_template(options)) end

--- A source of data of one's own, for run.open's option `data` or a file that the key data_source
--- names: a table of `next` and, so that a resumed run need not replay, `state` and `load_state`;
--- a function that gives row after row and nil at its end; or a coroutine that yields them. It
--- runs on every rank, which must all be given the same rows. Errors: INVALID_ARGUMENT.
---@param given moonring.SourceTable | thread | (fun(): moonring.SourceRow?) | moonring.Source
---@return moonring.Source
function data.source(given) return source.new(given) end

--- The rows of a json, jsonl, csv, txt, parquet or arrow file (or a list of such files, one after
--- another), or of a named data set: a source by itself, or a part of one by rows.next(),
--- rows.state() and rows.load_state(state). Errors: NOT_FOUND; INVALID_ARGUMENT, of a row with its
--- file and line.
---@param what string | string[] a file's path or several; with dataset_dir a name
---@param given? moonring.RowsOptions
---@return moonring.SourceTable
function data.rows(what, given) return rows_of_files.open(what, given) end

--- Data sets that were prepared before (tokenized_path), by their split.
---@param options moonring.NamedTemplateOptions moonring.TokenizedOptions otherwise
---@return table<string, moonring.Dataset>
function data.load_tokenized(options) return native.load_tokenized(with_template(options)) end

return data
