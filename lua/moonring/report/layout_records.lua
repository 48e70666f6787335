--- Writes layouts.jsonl, for the report page: how the micro-batches of some steps are distributed
-- over the ranks, what each rank computes, and what is sent. The steps are 1, 2, 3, 10, 30, 100,
-- 300, ...
local errors = require "moonring.base.errors"
local lines_before = require "moonring.report.lines_before"
local strategies = require "moonring.choices.strategies"
local system = require "moonring.native.system"

---@class moonring.layout_records
local layout_records = {}

---@class moonring.LayoutRecords
---@field run moonring.Run
---@field path string
---@field micros table[] of the current step, of this rank's sp group
---@field left_out integer further micro-batches of that step, which are not recorded
---@field lines string on rank 0: the file so far
---@field said? boolean whether a failed write was logged
local LayoutRecords = {}
LayoutRecords.__index = LayoutRecords

local FIRST, MICRO_BATCHES, DOCUMENTS, NUMBERS = 3, 4, 2000, 30000

-- Whether a step is recorded.
local function is_due(step)
  if step <= FIRST then return true end
  while step % 10 == 0 do step = step / 10 end
  return step == 1 or step == 3
end

--- Opens the records; nil if report_html is false.
---@param run moonring.Run
---@return moonring.LayoutRecords?
function layout_records.open(run)
  local c = run.config
  if not c.report_html then return nil end
  local self = setmetatable({ run = run, path = c.output_dir .. "/layouts.jsonl", micros = {},
    left_out = 0, lines = "" }, LayoutRecords)
  if run.mesh:rank() == 0 and run.resumed then
    local ok, lines = pcall(lines_before.text, self.path, run.resumed.step)
    self.lines = ok and lines or ""
  end
  return self
end

-- Adds to a record what each rank computes and sends for the attention of one layer, forward and
-- backward.
local function add_cost(record, cost)
  record.balance, record.area, record.forward, record.backward = cost.balance, {}, {}, {}
  for rank, each in ipairs(cost) do
    record.area[rank] = each.tile_area
    record.forward[rank], record.backward[rank] = each.forward.bytes, each.backward.bytes
  end
end

local function record_of(run, batch)
  local sequence, layout = batch:sequence(), batch.layout
  local record, lengths, spans, numbers = layout:grid(), sequence:lengths(), {}, 0
  record.strategy, record.tokens = run.attention:describe(sequence), {}
  for rank = 0, layout:ranks() - 1 do record.tokens[rank + 1] = layout:local_tokens(rank) end
  for place = 0, record.contexts - 1 do
    spans[place + 1] = layout:context_spans(place)
    numbers = numbers + #spans[place + 1]
  end
  record.documents = #lengths
  if #lengths <= DOCUMENTS and numbers <= NUMBERS then
    record.lengths, record.spans = lengths, spans
  end
  local cost = not batch.wanted_mask
    and strategies.cost(run.config, run.model, run.attention, sequence, batch.shifted)
  if cost then add_cost(record, cost) end
  return record
end

--- Records a micro-batch before its forward. On all ranks.
---@param batch moonring.Batch
function LayoutRecords:take(batch)
  if not is_due(self.run.step) then return end
  if #self.micros == MICRO_BATCHES then
    self.left_out = self.left_out + 1
    return
  end
  local _ = batch.layout -- accessed so that all ranks of an sp group cut it together
  if self.run.mesh:sp_rank() ~= 0 then return end
  local ok, record = pcall(record_of, self.run, batch)
  if ok then self.micros[#self.micros + 1] = record end
end

--- Finishes a step: if the step is recorded, rank 0 writes the file. Call it at the end of a step.
--- Collective over all ranks.
---@return string? why it could not be written; returned only once
function LayoutRecords:finish()
  local run, mesh = self.run, self.run.mesh
  if not is_due(run.step) then return nil end
  local mine = mesh:sp_rank() == 0 and system.json_encode { dp = mesh:dp_rank(),
    micro_batches = self.micros, left_out = self.left_out } or ""
  self.micros, self.left_out = {}, 0
  local texts, groups = mesh:gather(mine), {}
  if mesh:rank() ~= 0 then return nil end
  for _, text in ipairs(texts) do
    if text ~= "" then groups[#groups + 1] = text end
  end
  self.lines = ('%s{"step":%d,"layers":%d,"groups":[%s]}\n'):format(self.lines, run.step,
    run.checkpoint:facts().attention_layers, table.concat(groups, ","))
  local ok, why = pcall(system.write, self.path, self.lines)
  if ok or self.said then return nil end
  self.said = true
  return "layouts.jsonl: " .. errors.words(why)
end

return layout_records
