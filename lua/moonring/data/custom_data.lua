--- Custom data sources, which replace data sets; they come from the key data_source or from a
-- script (run.open). If max_steps is set, a source is read during training, as with streaming.
-- Otherwise it is read to its end before the first step, and is then an ordinary data set in the
-- source's order. The key `streaming` overrides this rule.
local config = require "moonring.config"
local errors = require "moonring.base.errors"
local fed_steps = require "moonring.data.fed_steps"
local native = require "moonring.native.source"
local custom_pieces = require "moonring.choices.custom_pieces"
local same_rows = require "moonring.data.same_rows"
local source = require "moonring.data.source"
local system = require "moonring.native.system"
local templates = require "moonring.data.templates"
local terminal = require "moonring.base.terminal"

---@class moonring.custom_data
local custom_data = {}

local KEY = "data_source"

--- Whether a configuration has a custom data source.
---@param c moonring.Configuration
---@return boolean
function custom_data.is_wanted(c) return custom_pieces.of(c, KEY) ~= nil end

--- Refuses contradicting keys, and sets defaults of `streaming` and `disable_shuffling`.
---@param c moonring.Configuration
function custom_data.settle(c)
  local piece = custom_pieces.of(c, KEY)
  if not piece then return end
  local kind = type(piece.value)
  if kind ~= "table" and kind ~= "function" and kind ~= "thread" then
    custom_pieces.refuse(piece, KEY, "expected a source (a table with 'next', a coroutine), or a ",
      "function of (config, tokenizer) that makes it, got a ", kind)
  end
  for _, key in ipairs { "dataset", "tokenized_path", "max_samples" } do
    if c[key] then config.fail(KEY, " and ", key, " exclude one another") end
  end
  if c.val_size > 0 then
    config.fail("val_size: a data source holds no rows out; expected eval_dataset beside it")
  end
  if c.given.streaming == nil then c.streaming = c.max_steps > 0 end
  if c.given.disable_shuffling == nil then c.disable_shuffling = true end
end

--- A stream of examples from a source that is read during training.
---@class moonring.FedStream
---@field feed moonring.Feed
---@field source moonring.Source
---@field beginning? string the source's state before its first row
local Stream = {}
Stream.__index = Stream

function Stream:__tostring() return "Stream of " .. self.source.name end

--- Returns nil: the number of examples of a stream is unknown.
---@return integer?
function Stream:size() return nil end

--- The training steps, from the source's beginning. May be called once per stream.
---@param given moonring.StreamStepsOptions
---@return moonring.FedSteps
function Stream:steps(given) return fed_steps.new(self, given) end

--- Always fails: the source may be endless, so it cannot be read whole.
function Stream:whole()
  config.fail("max_steps: a data source with it is read as it is used, not whole; expected none, ",
    "or streaming: false")
end

--- The report of the rows read so far, in the form of Dataset:report.
---@return string
function Stream:report() return self.feed:report() end

--- The report of the rows read so far, in the form of Dataset:report_json.
---@return string
function Stream:report_json() return self.feed:report_json() end

--- The warning of Dataset:cut_warning, for the rows read so far; nil if nothing was cut.
---@return string?
function Stream:cut_warning() return self.feed:cut_warning() end

-- Creates the source from the user's value. If that is a function, `remake` calls it again for each
-- pass over the data.
local function make(piece, c, tokenizer)
  local value = piece.value
  if type(value) == "function" then
    local ok, made = pcall(value, c, tokenizer)
    if not ok then errors.prefix(made, KEY, ": ") end
    value = made
  end
  local ok, made = pcall(source.new, value)
  if not ok then custom_pieces.refuse(piece, KEY, errors.words(made)) end
  if type(piece.value) == "function" then
    made.remake = function() return make(piece, c, tokenizer) end
  end
  if made.name == "data source" and piece.digest then made.name = piece.place end
  return made
end

-- TOGETHER: rows between two checks that all ranks have the same rows. MANY: rows after which a
-- note warns that the source has not ended yet.
local TOGETHER, MANY = 4096, 2 ^ 20

-- Reads a source to its end and returns a data set.
local function read_whole(stream, mesh)
  local feed, of, ended = stream.feed, stream.source, false
  local function read()
    for _ = 1, TOGETHER do
      local row = of:take(feed:rows() + 1)
      ended = row == nil
      if ended then break end
      of:hand_to(feed, row)
      if feed:rows() % MANY == 0 then
        terminal.note(("%s: %d rows so far, and no end: an endless source requires max_steps\n")
          :format(of.name, feed:rows()))
      end
    end
    if feed:rows() == 0 then errors.fail(of.name, ": it gives no row") end
    return ended
  end
  repeat same_rows.agree(mesh, of.name, feed, read) until ended
  return feed:finish()
end

--- Creates a stream of a source's examples.
---@param c moonring.Configuration
---@param of moonring.Source
---@param how table conversion of rows to examples: moonring.ExampleOptions and options of data.load
---@param ids? integer rows of the model's embedding, the limit of ids
---@return moonring.FedStream
function custom_data.stream(c, of, how, ids)
  for _, key in ipairs { "names", "dir", "dir_is_checkout", "fetched", "mix_strategy",
    "interleave_probs" } do
    how[key] = nil
  end
  how.name, how.template = of.name, templates.find(how.template)
  how.description = of.description and system.json_encode(of.description) or nil
  local looks_ahead = c.eval_strategy == "epoch" or c.save_strategy == "epoch"
  local stream = setmetatable({ source = of, feed = native.feed(how), beginning = of:place(),
    rows_together = c.preprocessing_batch_size, looks_ahead = looks_ahead }, Stream)
  if ids then stream.feed:limit_ids(math.max(ids, how.tokenizer:end_id())) end
  return stream
end

--- Opens the configured source. Returns a data set if the source is read whole, otherwise a stream.
--- Collective over all ranks. `given.rows` is the number of rows of the model's embedding, the
--- limit of ids. If `given` is absent, only this process reads, without a limit on ids.
---@param c moonring.Configuration
---@param tokenizer moonring.Tokenizer
---@param how table conversion of rows to examples: moonring.ExampleOptions and options of data.load
---@param given? { mesh: moonring.Mesh, rows: integer }
---@return moonring.Dataset | moonring.FedStream
function custom_data.open(c, tokenizer, how, given)
  given = given or {}
  local given_source = make(custom_pieces.of(c, KEY), c, tokenizer)
  local stream = custom_data.stream(c, given_source, how, given.rows)
  return c.streaming and stream or read_whole(stream, given.mesh)
end

return custom_data
