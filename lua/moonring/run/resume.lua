--- Going on from a checkpoint: which one, whether the run is the one that was interrupted, and what it was in the middle of.
--   checkpoint-N/training_state.json   the step, the configuration, the journal's sums, the best evaluation
--   checkpoint-N/data_state            where the data stands
--   checkpoint-N/states-*.safetensors  weights and optimizer's state, by the ranks that sharded them
local checkpoints = require "moonring.run.checkpoints"
local config = require "moonring.config"
local keys = require "moonring.config.keys"
local safetensors = require "moonring.native.safetensors"
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"
local trainer = require "moonring.native.trainer"
local training_args = require "moonring.config.training_args"

local resume = {}
local Resumed = {}
Resumed.__index = Resumed

local STATE, DATA = "training_state.json", "data_state"
local PATHS = { model_name_or_path = true, ref_model = true, template = true }

-- Why a folder is no checkpoint to go on from; nil where it is one.
local function broken(folder)
  local ok, why = pcall(trainer.check_checkpoint, folder)
  if not ok then return config.words(why) end
  if not system.exists(folder .. "/" .. STATE) then return folder .. ": it holds a model alone, as save_only_model asked" end
end

-- JSON has no word for a number that is none, and nothing else is null in these.
local function with_nan(value)
  if value == system.null then return 0 / 0 end
  if type(value) ~= "table" then return value end
  for name, each in pairs(value) do value[name] = with_nan(each) end
  return value
end

local function read_state(folder)
  local state = system.json_decode(system.read(folder .. "/" .. STATE), folder .. "/" .. STATE)
  state.journal = with_nan(state.journal)
  return state
end

-- The newest whole checkpoint in output_dir, of the run that is there or, up to where that went on from them, of earlier ones; and lines about those that are passed over.
local function newest(c)
  local notes, run, before = {}, training_args.of_run(c.output_dir)
  local function is_of_run(folder, step)
    local of = read_state(folder).run
    return not run or of == run or step <= (before[of] or -1)
  end
  for _, step in ipairs(checkpoints.list(c.output_dir)) do
    local folder = c.output_dir .. "/checkpoint-" .. step
    local why = broken(folder) or (not is_of_run(folder, step) and folder .. ": of an earlier run in this folder")
    if not why then return folder, notes end
    notes[#notes + 1] = "passed over: " .. why
  end
  return nil, notes
end

--- Whether a launcher (moonring's own, or torchrun) has started the ranks again after a failure.
function resume.restarted() return (tonumber(system.environment "TORCHELASTIC_RESTART_COUNT") or 0) > 0 end

-- Whether the run that is to go on from a folder has signed output_dir: it has another name then than the one that it goes on from.
local function has_begun(c, folder) return system.is_folder(folder) and not broken(folder) and read_state(folder).run ~= training_args.of_run(c.output_dir) end

-- The folder that resume_from_checkpoint names, or the newest whole checkpoint: where the ranks were started again this comes first. And lines about those that are passed over.
local function choose(c)
  local asked, notes, folder = c.resume_from_checkpoint, {}, nil
  local is_word = not asked or asked == true or asked == "auto"
  if (asked and is_word) or (resume.restarted() and (is_word or has_begun(c, asked))) then folder, notes = newest(c) end
  if folder or not asked or asked == "auto" then return folder, notes, true end
  if asked == true then config.fail("resume_from_checkpoint: no whole checkpoint in ", c.output_dir, #notes > 0 and ": " .. table.concat(notes, "; ") or "") end
  local why = system.is_folder(asked) and broken(asked) or not system.is_folder(asked) and asked .. ": no such folder"
  if why then config.fail("resume_from_checkpoint: ", why) end
  return asked, notes
end

-- A list of one is written as its item, as a configuration may.
local function show(value)
  if type(value) == "table" then return #value == 1 and type(value[1]) ~= "table" and tostring(value[1]) or system.json_encode(value) end
  return value == nil and "nothing" or tostring(value)
end

-- Whether two values of a key ask for the same: paths may be spelt in several ways.
local function same(name, a, b)
  if show(a) == show(b) then return true end
  return PATHS[name] and type(a) == "string" and type(b) == "string" and system.absolute(a) == system.absolute(b)
end

local told = {}
for _, section in ipairs(keys) do
  for _, row in ipairs(section.rows) do told[row[1]] = row.resume == "told" end
end

--- What a checkpoint remembers of a configuration: the value of each key that settles a run's numbers.
function resume.remembered(c)
  local values = {}
  for _, section in ipairs(keys) do
    for _, row in ipairs(section.rows) do
      if not (row.resume == "free" or row.only or row.ignored or row.warned) then values[row[1]] = c[row[1]] end
    end
  end
  values.data_seed = values.data_seed or values.seed
  return values
end

-- "cutoff_len was 512, is 1024", for each key that settles numbers: of those that may change, and of those that may not; sorted.
local function differences(saved, c)
  local may, may_not, now = {}, {}, resume.remembered(c)
  local names = {}
  for name in pairs(saved) do names[name] = true end
  for name in pairs(now) do names[name] = true end
  for name in pairs(names) do
    local list = told[name] and may or may_not
    if not same(name, saved[name], now[name]) then list[#list + 1] = ("%s was %s, is %s"):format(name, show(saved[name]), show(now[name])) end
  end
  table.sort(may)
  table.sort(may_not)
  return may, may_not
end

local function refuse(self, changes)
  if #changes == 0 then return end
  config.fail("resume_from_checkpoint: ", self.folder, " is of another run: ", table.concat(changes, "; "), "; ignore_data_skip: true goes on all the same, at the data's beginning")
end

--- The checkpoint that a configuration goes on from; nil where it begins anew. A configuration whose numbers would be other ones is refused, unless ignore_data_skip. Rank 0 looks, and
-- reads every byte; every rank must call it.
function resume.find(c, mesh)
  if not c.resume_from_checkpoint and not resume.restarted() then return nil end
  local found
  if mesh:rank() == 0 then
    local ok, folder, notes, newest = pcall(choose, c)
    found = ok and { folder = folder, notes = notes, newest = newest } or { failure = folder }
    found.own = ok and folder and resume.restarted() and read_state(folder).run == training_args.of_run(c.output_dir)
  end
  found = system.json_decode(mesh:gather(found and system.json_encode(found) or "")[1], "resume")
  if found.failure then error(found.failure, 0) end
  if not found.folder then return nil, found.notes end
  local self = setmetatable({ folder = found.folder, notes = found.notes, newest = found.newest, skips = not c.ignore_data_skip or found.own }, Resumed)
  for name, value in pairs(read_state(self.folder)) do self[name] = value end
  local may, may_not = differences(self.config, c)
  if self.skips then refuse(self, may_not) end
  for _, changes in ipairs { may, may_not } do
    for _, change in ipairs(changes) do self.notes[#self.notes + 1] = "goes on with a change: " .. change end
  end
  self.notes[#self.notes + 1] = ("goes on after step %d, from %s"):format(self.step, self.folder)
  return self
end

--- Writes training_args.yaml, which names the run that output_dir is of. `before`: up to which step it shares checkpoints with earlier runs, by their names. By rank 0.
function resume.sign(c, mesh, run, before)
  if mesh:rank() ~= 0 then return end
  local ok, why = pcall(system.write, c.output_dir .. "/training_args.yaml", training_args.text(c, mesh:size(), run, before))
  if not ok then config.fail("output_dir: ", config.words(why)) end
end

--- The name of a run that begins, or of the one that `resumed` is of; on rank 0. And for sign, once nothing refuses the run any more: up to which step it shares checkpoints with earlier
-- runs. One that was told where to go on, or goes on at the data's beginning, is another run from there, as it leaves what came later behind. A folder that an unrelated run was in is signed at
-- once, so that no checkpoint that this one left there is taken for the new one's; another folder stays empty as long as the run may be refused.
function resume.begin(c, mesh, resumed)
  if mesh:rank() ~= 0 then return nil end
  local here, before = training_args.of_run(c.output_dir)
  local new, is_own = ("%x-%x"):format(os.time(), system.clock() * 1e9 % 2 ^ 32), resumed and resumed.newest and resumed.skips
  if not here then return is_own and resumed.run or new end
  if not resumed or not (resumed.run == here or before[resumed.run]) then
    resume.sign(c, mesh, new)
    return new
  end
  if is_own then return here, before end
  local shared = {}
  for run, step in pairs(before) do shared[run] = math.min(step, resumed.step) end
  shared[resumed.run] = resumed.step
  return new, shared
end

--- Refuses other examples than those that the run was in the middle of: `digest` of the data set (nil of a stream), examples of a step, and of a group (moonring.run.group).
function Resumed:check(digest, examples_per_step, group)
  if not self.skips then return end
  local changes = {}
  if digest ~= self.data then changes[1] = "the data set's examples are other ones" end
  if examples_per_step ~= self.examples_per_step then
    changes[#changes + 1] = ("a step of %d examples (per_device_train_batch_size x gradient_accumulation_steps x dp) was one of %d"):format(examples_per_step, self.examples_per_step)
  end
  if group ~= self.group then
    changes[#changes + 1] = ("its loss has a term over each %s examples (per_device_train_batch_size, in stage kto x dp), which was over %s"):format(show(group), show(self.group))
  end
  refuse(self, changes)
end

--- Puts the saved weights and the optimizer's state in their places. Every rank must call it.
function Resumed:load(states, optimizer)
  local names = {}
  for _, name in ipairs(system.list(self.folder)) do
    if name:find "^states%-%d+%-of%-%d+%.safetensors$" then names[#names + 1] = name end
  end
  table.sort(names)
  tensor.scope(function()
    local saved = {}
    for i, name in ipairs(names) do saved[i] = safetensors.read(self.folder .. "/" .. name) end
    states:load(optimizer, saved)
  end)
  states:publish()
end

--- Moves the data to where it stood.
function Resumed:place(steps)
  if not self.skips then return end
  local ok, why = pcall(steps.load_state, steps, system.read(self.folder .. "/" .. DATA))
  if not ok then refuse(self, { config.words(why) }) end
end

--- Takes the log of the run that it goes on from into an output_dir that has none. By rank 0.
function Resumed:bring_log(c, mesh)
  local from, to = system.absolute(self.folder .. "/../trainer_log.jsonl"), c.output_dir .. "/trainer_log.jsonl"
  if mesh:rank() == 0 and not system.exists(to) and system.exists(from) then system.write(to, system.read(from)) end
end

--- Writes what a checkpoint has beside the model: `state` (of training_state.json: step, journal, checkpoints, config and so on), the states of a run, and where its data stands. Returns the
-- names of the files that are this rank's alone. Every rank must call it.
function resume.write(folder, mesh, parts)
  local own = {}
  local index, of, is_first = parts.states:place()
  if is_first then
    own[1] = ("states-%05d-of-%05d.safetensors"):format(index + 1, of)
    tensor.scope(function() safetensors.write(folder .. "/" .. own[1], parts.states:save(parts.optimizer), { flush = false }) end) -- the checkpoint's publisher does
  end
  if mesh:rank() == 0 then
    parts.state.config_sha1 = system.sha1(system.json_encode(parts.state.config))
    system.write(folder .. "/" .. STATE, system.json_encode(parts.state) .. "\n")
    system.write(folder .. "/" .. DATA, parts.steps:save_state())
  end
  return own
end

return resume
