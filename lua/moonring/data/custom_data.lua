--- Data of one's own in place of data sets: what the key data_source names, or a script brings
-- (run.open). A source is read as it is used where there is a max_steps, as with streaming; else to
-- its end before the first step, and is then a data set as any other, in the order in which it
-- came. Either way `streaming` settles it where it is given.
local config = require "moonring.config"
local errors = require "moonring.base.errors"
local fed_steps = require "moonring.data.fed_steps"
local native = require "moonring.native.source"
local own_pieces = require "moonring.choices.custom_pieces"
local same_rows = require "moonring.data.same_rows"
local source = require "moonring.data.source"
local system = require "moonring.native.system"
local templates = require "moonring.data.templates"
local terminal = require "moonring.base.terminal"

---@class moonring.own_data
local own_data = {}

local KEY = "data_source"

--- Whether a configuration has data of its user's own.
---@param c moonring.Configuration
---@return boolean
function own_data.is_wanted(c) return own_pieces.of(c, KEY) ~= nil end

--- Refuses keys that say something else, and settles `streaming` and `disable_shuffling` where they
--- are not given.
---@param c moonring.Configuration
function own_data.settle(c)
  local piece = own_pieces.of(c, KEY)
  if not piece then return end
  local kind = type(piece.value)
  if kind ~= "table" and kind ~= "function" and kind ~= "thread" then
    own_pieces.refuse(piece, KEY, "wanted a source (a table with 'next', a coroutine), or a ",
      "function of (config, tokenizer) that makes it, got a ", kind)
  end
  for _, key in ipairs { "dataset", "tokenized_path", "max_samples" } do
    if c[key] then config.fail(KEY, " and ", key, " exclude one another") end
  end
  if c.val_size > 0 then
    config.fail("val_size: a data source holds no rows out; wanted eval_dataset beside it")
  end
  if c.given.streaming == nil then c.streaming = c.max_steps > 0 end
  if c.given.disable_shuffling == nil then c.disable_shuffling = true end
end

--- A source's examples as they are used.
---@class moonring.FedStream
---@field feed moonring.Feed
---@field source moonring.Source
---@field beginning? string where the source stood before its first row
local Stream = {}
Stream.__index = Stream

function Stream:__tostring() return "Stream of " .. self.source.name end

--- Nil: nobody knows how many examples there are.
---@return integer?
function Stream:size() return nil end

--- The steps of a training, from the source's beginning. Once of a stream.
---@param given moonring.StreamStepsOptions
---@return moonring.FedSteps
function Stream:steps(given) return fed_steps.new(self, given) end

--- Refuses: it may have no end.
function Stream:whole()
  config.fail("max_steps: a data source with it is read as it is used, not whole; wanted none, or ",
    "streaming: false")
end

--- As a data set's, of the rows read so far.
---@return string
function Stream:report() return self.feed:report() end

--- As a data set's.
---@return string
function Stream:report_json() return self.feed:report_json() end

--- As a data set's; else nil.
---@return string?
function Stream:cut_warning() return self.feed:cut_warning() end

-- Makes the source, and again for each pass where a function does.
local function make(piece, c, tokenizer)
  local value = piece.value
  if type(value) == "function" then
    local ok, made = pcall(value, c, tokenizer)
    if not ok then errors.prefix(made, KEY, ": ") end
    value = made
  end
  local ok, made = pcall(source.new, value)
  if not ok then own_pieces.refuse(piece, KEY, errors.words(made)) end
  if type(piece.value) == "function" then
    made.remake = function() return make(piece, c, tokenizer) end
  end
  if made.name == "data source" and piece.digest then made.name = piece.place end
  return made
end

-- Rows between two looks whether all ranks have the same; and those after which it is said that no
-- end was met.
local TOGETHER, MANY = 4096, 2 ^ 20

-- Reads a source to its end, into a data set.
local function read_whole(stream, mesh)
  local feed, of, ended = stream.feed, stream.source, false
  local function read()
    for _ = 1, TOGETHER do
      local row = of:take(feed:rows() + 1)
      ended = row == nil
      if ended then break end
      of:hand_to(feed, row)
      if feed:rows() % MANY == 0 then
        terminal.note(("%s: %d rows so far, and no end: an endless source wants max_steps\n")
          :format(of.name, feed:rows()))
      end
    end
    if feed:rows() == 0 then errors.fail(of.name, ": it gives no row") end
    return ended
  end
  repeat same_rows.agree(mesh, of.name, feed, read) until ended
  return feed:finish()
end

--- The examples of a source as they are used.
---@param c moonring.Configuration
---@param of moonring.Source
---@param how table how rows become examples: moonring.ExampleOptions, and more of data.load's
---@param ids? integer that the model has rows for, at the least; absent: any
---@return moonring.FedStream
function own_data.stream(c, of, how, ids)
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

--- Opens it: a data set where it is read whole, else a stream. Collective over all ranks.
---@param c moonring.Configuration
---@param tokenizer moonring.Tokenizer
---@param how table how rows become examples: moonring.ExampleOptions, and more of data.load's
---@param given? { mesh: moonring.Mesh, rows: integer } absent: this process alone, and any ids;
---   `rows`: those of the model's vocabulary
---@return moonring.Dataset | moonring.FedStream
function own_data.open(c, tokenizer, how, given)
  given = given or {}
  local stream = own_data.stream(c, make(own_pieces.of(c, KEY), c, tokenizer), how, given.rows)
  return c.streaming and stream or read_whole(stream, given.mesh)
end

return own_data
