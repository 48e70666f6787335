--- The reference model of DPO and KTO: log-probs per document, live, or computed once before training and kept.
--
-- What is kept is the sum over each document, before any option of the loss touches it, in a file beside the run that also says what it was computed
-- from: data, template, cutoff, the reference's weights, precision, stage and the loss's options. A file that says otherwise is refused. It is computed on the very
-- micro-batches of the first epoch, so that on the same sp and strategy the numbers are those of a live reference, bit for bit.
local batches = require "moonring.run.batch"
local config = require "moonring.config"
local readings = require "moonring.run.readings"
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"

local reference = {}

local Live = {}
Live.__index = Live

--- A model that is held in memory.
function reference.live(model) return setmetatable({ model = model }, Live) end

--- Log-probs of a batch's documents: fp64 [documents], outside any graph.
function Live:log_probs(batch)
  return tensor.no_grad(function()
    local statistics = batch.statistics -- the policy's
    local hidden = batch:hidden(self.model)
    local sums = batch:document_log_probs(self.model, hidden)
    hidden:close() -- else they would live through the policy's forward and backward
    batch.statistics = statistics
    return sums
  end)
end

local Kept = {}
Kept.__index = Kept

--- Numbers that are there: a list of the documents' log-probs for each example of a data set.
function reference.kept(log_probs) return setmetatable({ of = log_probs }, Kept) end

function Kept:log_probs(batch)
  local values, counts = {}, batch:document_counts()
  for i, example in ipairs(batch:examples()) do
    for d = 1, counts[i] do values[#values + 1] = self.of[example + 1][batch.slot + d] end
  end
  return tensor.tensor(values, "fp64")
end

-- Runs the model over every document of a data set. Options: model, dataset, attention, mesh, steps (of one epoch), documents (of an example), lockstep
-- (whether ranks share its weights). Every rank must call it.
local function compute(options)
  local live, mesh, width = reference.live(options.model), options.mesh, options.documents
  local flat = {}
  for i = 1, options.dataset:size() * width do flat[i] = 0 end
  local later = readings.new()
  for step in function() return options.steps:next() end do
    for slot, micros in ipairs { step:micro_batches(), step:mismatched() } do
      for _, micro in ipairs(options.lockstep and batches.in_lockstep(micros, mesh) or micros) do
        tensor.scope(function()
          local batch = batches.new(micro, options.attention, mesh, slot - 1)
          local counts, examples = batch:document_counts(), batch:examples()
          later:want({ live:log_probs(batch) }, function(values)
            local n = 0
            for i, example in ipairs(examples) do
              for d = 1, counts[i] do flat[example * width + batch.slot + d] = values[n + d] end
              n = n + counts[i]
            end
          end)
        end)
      end
    end
    later:read()
  end
  flat = mesh:sum_dp(tensor.tensor(flat, "fp64")):tolist() -- each example was one dp rank's; the others have 0
  local log_probs = {}
  for i = 1, options.dataset:size() do
    log_probs[i] = {}
    for d = 1, width do log_probs[i][d] = flat[(i - 1) * width + d] end
  end
  return log_probs
end

-- What differs between two keys, in words.
local function difference(was, now)
  local words = {}
  for name, value in pairs(now) do
    if was[name] ~= value then words[#words + 1] = ("%s was %s, is %s"):format(name, tostring(was[name]), tostring(value)) end
  end
  table.sort(words)
  return table.concat(words, "; ")
end

-- The file as rank 0 sees it (the others may not share its disk), or nil.
local function read(path, mesh)
  local text = mesh:gather(mesh:rank() == 0 and system.exists(path) and system.read(path) or "")[1]
  return text ~= "" and text or nil
end

--- Log-probs from `path`, or computed by `make_model()` and written there. Options: path, key (name -> text or number: what they depend on), overwrite (true: compute
-- again whatever is there), make_model, dataset, attention, mesh, make_steps, documents. Every rank must call it.
function reference.precomputed(options)
  local mesh, path = options.mesh, options.path
  local function say(text)
    if mesh:rank() == 0 then io.stderr:write("reference log-probs: ", text, "\n") end
  end
  local text = not options.overwrite and read(path, mesh) or nil
  if text then
    local ok, file = pcall(system.json_decode, text, path)
    if not ok or type(file) ~= "table" or type(file.key) ~= "table" or type(file.log_probs) ~= "table" then
      config.fail(path, ": not a file of reference log-probs; overwrite_cache: true computes them again")
    end
    if file.log_probs_sha1 ~= system.sha1(system.json_encode(file.log_probs)) then
      config.fail(path, ": its log-probs are not those that were written; overwrite_cache: true computes them again")
    end
    local stale = difference(file.key, options.key)
    if stale ~= "" then config.fail(path, ": these reference log-probs are of another run: ", stale, "; overwrite_cache: true computes them again") end
    if #file.log_probs ~= options.dataset:size() then config.fail(path, ": ", #file.log_probs, " examples, the data set has ", options.dataset:size()) end
    say("read from " .. path)
    return reference.kept(file.log_probs)
  end
  say("computing those of " .. options.dataset:size() .. " examples")
  local log_probs = compute { model = options.make_model(), dataset = options.dataset, attention = options.attention, mesh = mesh, steps = options.make_steps(),
    documents = options.documents, lockstep = options.lockstep }
  if mesh:rank() == 0 then system.write(path, system.json_encode { key = options.key, log_probs = log_probs, log_probs_sha1 = system.sha1(system.json_encode(log_probs)) } .. "\n") end
  say("written to " .. path)
  return reference.kept(log_probs)
end

return reference
