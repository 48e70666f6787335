--- Makes steps from a custom data source. Rows are read when a step is requested, on the training
-- thread, so a source may depend on the run so far. preprocessing_batch_size rows are read at once,
-- because they may be packed or concatenated, or exchange answers (KTO).
--
-- The saved state is the source's position after the last returned step: the source's own state, or
-- the number of rows read. If some examples of a batch of rows are not used yet, the state is the
-- position before that batch, and the number of examples used. When the run resumes, a digest
-- checks that the rows read again are the same as before.
local errors = require "moonring.base.errors"
local same_rows = require "moonring.data.same_rows"
local system = require "moonring.native.system"

---@class moonring.FedSteps
---@field feed moonring.Feed
---@field source moonring.Source
---@field mesh? moonring.Mesh
local Steps = {}
Steps.__index = Steps

-- The maximum number of consecutive rows that give no example. Without a limit, an endless source
-- of such rows would be read forever.
local BARREN = 10000

---@class moonring.fed_steps
local fed_steps = {}

--- Creates the steps of a stream, from its beginning.
---@param stream moonring.FedStream
---@param given moonring.StreamStepsOptions
---@return moonring.FedSteps
function fed_steps.new(stream, given)
  return setmetatable({ feed = stream.feed, source = stream.source, beginning = stream.beginning,
    rows_together = stream.rows_together, looks_ahead = stream.looks_ahead, mesh = given.mesh,
    wanted = given.batch * (given.batches or 1), total = given.total_steps or math.huge,
    micro_batch_tokens = given.micro_batch_tokens, share_prefixes = given.share_prefixes,
    pass = 0, in_pass = 0, steps = 0, index = 0, ended = false }, Steps)
end

-- Returns the next row. It may have been read ahead, to find out whether there is one.
local function take(self)
  local row = self.ahead
  if row == nil then return self.source:take(self.feed:rows() + 1) end
  self.ahead = nil
  return row
end

-- The source's state. If a row was only read ahead, this is the state before that row.
local function place(self)
  if self.ahead ~= nil then return self.place_before end
  return self.source:place()
end

-- Reads up to `most` rows.
local function read(self, most)
  local feed, count = self.feed, 0
  while count < most do
    local row = take(self)
    if row == nil then
      self.ended = true
      break
    end
    self.source:hand_to(feed, row)
    count = count + 1
  end
  local before = feed:ready()
  feed:end_batch()
  return count, feed:ready() - before
end

-- Reads the rows of one batch. Records what is needed to read them again.
local function read_together(self, most)
  local feed = self.feed
  local batch = { place = place(self), rows = feed:rows(), digest = feed:digest() }
  batch.count, batch.examples = read(self, most)
  batch.of = feed:batch_digest()
  self.batch = batch
  return batch.count, batch.examples
end

-- Reads until the examples of a step are ready, or the pass over the data ends.
local function fill(self)
  local feed, barren = self.feed, 0
  while feed:ready() < self.wanted and not self.ended do
    local count, examples
    if feed:joins_rows() then
      count, examples = read_together(self, self.rows_together)
    else
      count, examples = read(self, self.wanted - feed:ready())
    end
    barren = examples > 0 and 0 or barren + count
    if barren >= BARREN then
      feed:check()
      errors.fail(self.source.name, ": none of the ", barren, " rows up to row ", feed:rows(),
        " gives an example")
    end
  end
  if feed:ready() > 0 then feed:check() end
  local at_border = feed:ready() > 0 and feed:ready() <= self.wanted
  if not (self.looks_ahead and at_border) or self.ended or self.ahead ~= nil then return end
  self.place_before = self.source:place()
  self.ahead = self.source:take(feed:rows() + 1)
  self.ended = self.ahead == nil
end

local function fill_on_all(self)
  same_rows.agree(self.mesh, self.source.name, self.feed, function()
    fill(self)
    return self.ended
  end)
  return math.min(self.feed:ready(), self.wanted)
end

-- Begins the next pass; false if the source cannot be restarted.
local function begin_pass(self)
  if self.in_pass == 0 then
    if self.feed:rows() == 0 then errors.fail(self.source.name, ": it gives no row") end
    self.feed:check()
    errors.fail(self.source.name, ": no row of pass ", self.pass + 1, " gives an example")
  end
  local again = self.source:restarted(self.beginning)
  if not again then return false end
  self.source, self.pass, self.in_pass, self.ended, self.batch = again, self.pass + 1, 0, false, nil
  self.feed:begin(0, "")
  return true
end

--- The next step; nil after the last one, or after the end of a source that cannot be restarted.
--- Collective over all ranks. Errors: DATA_LOSS if ranks have different rows.
---@return moonring.Step?
function Steps:next()
  if self.steps >= self.total then return nil end
  local ready = fill_on_all(self)
  if ready == 0 then
    if not begin_pass(self) then return nil end
    ready = fill_on_all(self)
    if ready == 0 then begin_pass(self) end -- raises an error with the cause
  end
  local step = self.feed:step { mesh = self.mesh, batch = ready, index = self.index,
    epoch = self.pass, step = self.in_pass, last = self.ended and self.feed:ready() == ready,
    micro_batch_tokens = self.micro_batch_tokens, share_prefixes = self.share_prefixes }
  self.steps, self.in_pass, self.index = self.steps + 1, self.in_pass + 1, self.index + ready
  return step
end

--- The position in the data after the last step, as JSON.
---@return string
function Steps:save_state()
  local feed, batch = self.feed, self.batch
  local state = { stage = "source_steps", source = self.source.name, pass = self.pass,
    in_pass = self.in_pass, steps = self.steps, index = self.index }
  if batch and feed:ready() > 0 then
    state.place, state.rows, state.digest = batch.place, batch.rows, batch.digest
    state.together = { count = batch.count, of = batch.of, taken = batch.examples - feed:ready() }
  else
    state.place, state.rows, state.digest = place(self), feed:rows(), feed:digest()
  end
  return system.json_encode(state)
end

local function refuse(...) errors.raise("FAILED_PRECONDITION", ...) end

-- Moves the source to a saved position: by its own state, or by reading all rows from its
-- beginning.
local function go_to(self, saved)
  local source, feed = self.source, self.feed
  feed:begin(0, "")
  if (saved.place ~= nil) ~= source:has_state() then
    refuse(source.name, ": it ", saved.place and "had" or "had no", " state, and now it has ",
      saved.place and "none" or "one")
  end
  if saved.place then
    source:go_to(saved.place)
    feed:begin(saved.rows, saved.digest)
    return
  end
  for number = 1, saved.rows do
    local row = source:take(number)
    if row == nil then
      refuse(source.name, ": it had given ", saved.rows, " rows, and ends after ", number - 1)
    end
    feed:pass_over(row)
  end
  if feed:digest() ~= saved.digest then
    refuse(source.name, ": its first ", saved.rows, " rows are other ones than they were")
  end
end

--- Restores a saved position. Only allowed before the first step.
---@param text string
function Steps:load_state(text)
  local ok, saved = pcall(system.json_decode, text, "state")
  if not ok or type(saved) ~= "table" or saved.stage ~= "source_steps" then
    errors.fail("not a state that a data source saved")
  end
  go_to(self, saved)
  for _, name in ipairs { "pass", "in_pass", "steps", "index" } do self[name] = saved[name] end
  local together = saved.together
  if not together then return end
  read_together(self, together.count)
  if self.batch.of ~= together.of then
    refuse(self.source.name, " (row ", saved.rows + 1, "): its rows give other examples than they ",
      "gave")
  end
  self.feed:drop(together.taken)
end

return fed_steps
