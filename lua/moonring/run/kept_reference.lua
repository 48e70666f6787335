--- Precomputed log-probs of the reference model, stored in a file before the training.
--
-- The file contains the sum over each document, to which no option of the loss was applied, and the
-- settings it was computed with: data, template, cutoff, the reference's weights, precision, stage
-- and the loss's options. A file with other settings is refused. The log-probs are computed on the
-- same micro-batches as in the first epoch. So with the same sp and strategy they equal those that
-- the reference would compute during training, bit for bit.
local batches = require "moonring.run.batch"
local errors = require "moonring.base.errors"
local lockstep = require "moonring.run.lockstep"
local phases = require "moonring.report.phases"
local readings = require "moonring.base.readings"
local reference = require "moonring.run.reference"
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"
local terminal = require "moonring.base.terminal"

---@class moonring.kept_reference
local kept_reference = {}

---@class moonring.KeptReferenceOptions
---@field path string the file
---@field key table<string, string | number> the settings that the numbers depend on
---@field overwrite boolean recomputes even if the file exists
---@field make_model fun(): moonring.Model called only if the log-probs must be computed
---@field dataset moonring.Dataset
---@field attention moonring.Attention
---@field mesh moonring.Mesh
---@field make_steps fun(): moonring.Steps one epoch over the data set
---@field documents integer documents per example
---@field lockstep? boolean whether ranks share the model's weights
---@field progress? moonring.Progress on rank 0

local AGAIN = "; overwrite_cache: true computes them again"

-- Requests the log-probs of one micro-batch's documents; they are put into the list `flat` when
-- `later` is read.
local function note(given, live, micro, slot, flat, later)
  local batch = batches.new(micro, given.attention, given.mesh, slot)
  local counts, examples, width = batch:document_counts(), batch:examples(), given.documents
  later:want({ live:log_probs(batch) }, function(values)
    local n = 0
    for i, example in ipairs(examples) do
      for d = 1, counts[i] do flat[example * width + slot + d] = values[n + d] end
      n = n + counts[i]
    end
  end)
end

-- Computes the log-probs of every document of the data set. Collective over all ranks. `work`
-- counts the finished examples.
local function compute(given, work)
  local live, mesh, width = reference.live(given.make_model()), given.mesh, given.documents
  local flat, later, steps = {}, readings.new(), given.make_steps()
  for i = 1, given.dataset:size() * width do flat[i] = 0 end
  for step in function() return steps:next() end do
    for i, micros in ipairs { step:micro_batches(), step:mismatched() } do
      for _, micro in ipairs(given.lockstep and lockstep.pad(micros, mesh) or micros) do
        tensor.scope(note, given, live, micro, i - 1, flat, later)
      end
    end
    later:read()
    if work then work:add(step:size()) end
  end
  -- Each example was computed on one dp rank; the other dp ranks have 0 for it.
  flat = mesh:sum_dp(tensor.tensor(flat, "fp64")):tolist()
  local log_probs = {}
  for i = 1, given.dataset:size() do
    log_probs[i] = {}
    for d = 1, width do log_probs[i][d] = flat[(i - 1) * width + d] end
  end
  return log_probs
end

-- Describes how the settings `was` and `now` differ, as text.
local function difference(was, now)
  local words = {}
  for name, value in pairs(now) do
    if was[name] ~= value then
      words[#words + 1] = ("%s was %s, is %s"):format(name, tostring(was[name]), tostring(value))
    end
  end
  return table.concat(words, "; ")
end

local function sum_of(log_probs) return system.sha1(system.json_encode(log_probs)) end

-- Reads the file on rank 0 and sends its text to all ranks, which may not share a disk; nil if the
-- file does not exist.
local function read(path, mesh)
  local is_there = mesh:rank() == 0 and system.exists(path)
  local text = mesh:gather(is_there and system.read(path) or "")[1]
  return text ~= "" and text or nil
end

-- Parses the file's text. Errors: INVALID_ARGUMENT if the file was made with other settings or is
-- damaged.
local function checked(text, given)
  local path = given.path
  local ok, file = pcall(system.json_decode, text, path)
  local is_file = ok and type(file) == "table" and type(file.key) == "table"
  if not is_file or type(file.log_probs) ~= "table" then
    errors.fail(path, ": not a file of reference log-probs", AGAIN)
  end
  if file.log_probs_sha1 ~= sum_of(file.log_probs) then
    errors.fail(path, ": its log-probs are not those that were written", AGAIN)
  end
  local stale = difference(file.key, given.key)
  if stale ~= "" then
    errors.fail(path, ": these reference log-probs are of another run: ", stale, AGAIN)
  end
  if #file.log_probs ~= given.dataset:size() then
    errors.fail(path, ": ", #file.log_probs, " examples, the data set has ", given.dataset:size())
  end
  return file.log_probs
end

--- Reads the log-probs from a file, or computes and writes them. Collective over all ranks. Errors:
--- INVALID_ARGUMENT, with the differences, if the file was made with other settings.
---@param given moonring.KeptReferenceOptions
---@return moonring.Reference
function kept_reference.open(given)
  local mesh, path = given.mesh, given.path
  local function say(...)
    if mesh:rank() == 0 then terminal.note("reference log-probs: ", ...) end
  end
  local text = not given.overwrite and read(path, mesh) or nil
  if text then
    local log_probs = checked(text, given)
    say("read from ", path, "\n")
    return reference.kept(log_probs)
  end
  say("computing those of ", given.dataset:size(), " examples\n")
  local log_probs = phases.run(given.progress, "reference log-probs", "examples", function(work)
    if work then work:expect(given.dataset:size()) end
    return compute(given, work)
  end)
  if mesh:rank() == 0 then
    local file = { key = given.key, log_probs = log_probs, log_probs_sha1 = sum_of(log_probs) }
    system.write(path, system.json_encode(file) .. "\n")
  end
  say("written to ", path, "\n")
  return reference.kept(log_probs)
end

return kept_reference
