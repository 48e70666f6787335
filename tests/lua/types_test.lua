-- Compares annotations (lua/types, and those in the sources of Lua modules) with the live API in
-- both directions: types_test.lua SECTION TYPES_FOLDER MODEL_FOLDER DATA_FOLDER SCRATCH_FOLDER.
-- Raises one error that lists every difference.
local section, types_folder, model_folder, data_folder, scratch = arg[1], arg[2], arg[3], arg[4],
  arg[5]
local moonring = require "moonring"
local batch = require "moonring.run.batch"
local chat = require "moonring.run.chat"
local checkpoints = require "moonring.run.checkpoint.checkpoints"
local batching = require "moonring.choices.batching"
local datasets = require "moonring.data.datasets"
local inspect = require "moonring.commands.inspect"
local journal = require "moonring.report.journal"
local loss_scale = require "moonring.run.loss_scale"
local memory_report = require "moonring.report.memory_report"
local pace = require "moonring.run.pace"
local probe = require "moonring.commands.probe"
local resume = require "moonring.run.checkpoint.resume"
local resume_changes = require "moonring.run.checkpoint.resume_changes"
local rollouts = require "moonring.run.rollouts"
local router = require "moonring.run.router"
local stages = require "moonring.choices.stages"
local templates = require "moonring.data.templates"
local updates = require "moonring.run.updates"

local failures = {}
local function check(condition, ...)
  if not condition then failures[#failures + 1] = table.concat({ ... }) end
end

local function keys_of(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = tostring(name) end
  table.sort(names)
  return names
end

-- The annotations in the files.
local root = types_folder:match "^(.*)/lua/types$"
local said = require("moonring.prompt.annotations").read(types_folder, root .. "/lua/moonring",
  check)
local classes, modules, aliases = said.classes, said.modules, said.aliases

-- The live API
--------------------------------------------------------------------------------------------

-- One object of every class, by its documented name: on one rank, from a model with a few thousand
-- weights.
local objects = {}
do
  local o = objects
  o.Mesh = moonring.comm.mesh {}
  o.Sequence = moonring.comm.sequence { documents = { { 1, 2, 3, 4 }, { 5, 6 } } }
  o.Attention = moonring.attention.create { mesh = o.Mesh }
  o.Layout = o.Attention:layout(o.Sequence)
  o.Mask = moonring.attention.mask { lengths = o.Sequence:lengths() }
  local ids, positions, targets, plan = o.Attention:cut(o.Sequence)
  o.AttentionPlan = plan
  o.Checkpoint = moonring.model.open(model_folder)
  o.Model = moonring.model.load(o.Checkpoint)
  o.Parameters, o.Head = o.Model:parameters(), o.Model:head()
  o.Parameter = o.Head:weight()
  o.ValueHead = o.Model:value_head()
  o.Tokenizer = moonring.data.tokenizer(o.Checkpoint)
  o.WordSegmenter = moonring.data.word_segmenter()
  o.Template = moonring.data.template("chatml", o.Tokenizer)
  o.ModelTemplate = moonring.data.model_template({ companion = function(_,
    name) return name == "chat_template.jinja" and "{{ messages[0].content }}" or nil end,
    path = function() return "" end }, o.Tokenizer)
  o.Dataset = moonring.data.load { names = { "own" }, dir = data_folder, template = "chatml",
    tokenizer = o.Tokenizer }
  o.Stream = moonring.data.stream { names = { "own" }, dir = data_folder, template = "chatml",
    tokenizer = o.Tokenizer }
  local rows = require "moonring.native.source"
  o.Rows = rows.named_rows(data_folder, "own")
  o.Feed = rows.feed { name = "own", template = templates.find "chatml",
    tokenizer = o.Tokenizer }
  o.Source = moonring.data.source(function() end)
  local own = moonring.config.load(nil, { "max_steps=1", "template=chatml" })
  require("moonring.choices.custom_pieces").bring(own, { data_source = { next = print } })
  require("moonring.data.custom_data").settle(own)
  o.FedStream = datasets.load(own, o.Tokenizer)
  o.FedSteps = o.FedStream:steps { batch = 4, micro_batch_tokens = 4096 }
  o.CustomMicroBatches = require "moonring.run.custom_micro_batches" (o.FedSteps, print, o.Mesh, 1)
  o.Steps = o.Dataset:steps { mesh = o.Mesh, batch = 4, micro_batch_tokens = 4096 }
  o.FittingSteps = require("moonring.run.fitting").new(o.Steps, { micro_batch_tokens = 4096 },
    o.Mesh, print)
  o.Step = o.Steps:next()
  o.MicroBatch = o.Step:micro_batches()[1]
  o.Repository = require("moonring.native.hub").repository { kind = "model", name = "org/name",
    cache = scratch }
  o.RepositoryLock = o.Repository:lock()
  o.DownloadProgress = require("moonring.hub.download_progress").new(
    { name = "org/name", of = {} }, o.Repository)
  local native_rewards = require "moonring.native.rewards"
  o.OwnState = native_rewards.own_state { module = "moonring.rewards.inside", memory = 2 ^ 26 }
  o.ChildProcess = native_rewards.child { "cat" }
  o.TextPattern = native_rewards.pattern "a+"
  o.Rewards = moonring.rewards.open "json"
  local watch_native = require "moonring.native.watch"
  o.PageServer, o.LineInput = watch_native.listen(), watch_native.input()
  o.ServeDoor = require("moonring.native.serve").open { key = "tml-key", folder = scratch }
  o.RunList = require("moonring.report.run_list").open { scratch }
  o.RunList:refresh()
  o.ChatDesk = require("moonring.report.chat_desk").new(o.PageServer, o.RunList)
  o.ChatQueue = o.ChatDesk.queue
  o.ChatProcess = require("moonring.report.chat_process").of(o.ChildProcess, "key")
  local grpo = { stage = "grpo", given = {}, template = "chatml", per_device_train_batch_size = 8,
    gradient_accumulation_steps = 1, num_iterations = 1 }
  o.Rollouts = rollouts.new({ config = grpo, mesh = o.Mesh, tokenizer = o.Tokenizer },
    o.Steps)
  o.Sft = moonring.objectives.sft()
  local log_prob = moonring.objectives.log_prob(o.Model:forward(ids, positions, plan), o.Head,
    targets)
  o.Tensor = o.Sft:loss(log_prob, targets)
  o.Preference, o.Kto = moonring.objectives.preference(), moonring.objectives.kto()
  o.PolicyGradient = moonring.objectives.policy_gradient()
  o.Module = moonring.nn.linear(2, 3)
  o.Weight = o.Module.weight
  o.Optimizer = moonring.trainer.adamw(o.Parameters)
  o.OwnOptimizer = moonring.optimizer { step = function() end,
    whole = function(p) o.RuleParameter = p end }
  o.OwnOptimizer:over(o.Parameters)
  o.OwnSchedule = require("moonring.choices.custom_schedule").new({ value = function() return 1 end,
    place = "mine.lua" }, {}, 10)
  o.Zero = moonring.trainer.zero { mesh = o.Mesh }
  o.States = o.Zero:states(o.Parameters)
  o.Gradients = require("moonring.run.gradients").take(o.States)
  local apart = moonring.trainer.zero({ mesh = o.Mesh, apart = true }):states(o.Parameters)
  o.OuterSteps = moonring.trainer.outer_steps { mesh = o.Mesh, states = apart }
  o.Rounds = require("moonring.choices.rounds").open(moonring.config.load(nil, { "local_steps=2" }),
    { mesh = o.Mesh, states = apart, total = 10 })
  o.Schedule = moonring.trainer.schedule { total_steps = 10 }
  o.Log = moonring.trainer.log { dir = scratch, total_steps = 10 }
  o.FolderLock = moonring.trainer.lock_folder(scratch)
  o.Progress = moonring.trainer.progress { kind = "off" }
  o.WorkCount = moonring.trainer.work_count()
  o.RunClock = require("moonring.report.run_clock").new()
  o.RunRecord = moonring.trainer.run_record(scratch .. "/record.json")
  o.RunState = require("moonring.report.run_state").open(scratch, {}, {})
  o.EventFile = moonring.trainer.event_file { folder = scratch }
  o.LineFile = moonring.trainer.line_file(scratch .. "/lines.jsonl")
  o.LineProgram = moonring.trainer.line_program { "true" }
  o.Trackers = require("moonring.report.trackers").open({ report_to = { "jsonl" },
    output_dir = scratch }, { first_step = 0, say = print })
  o.RunFiles = require("moonring.report.run_files").open(scratch)
  o.GrowingFile, o.RankTimes = o.RunFiles.log, o.RunFiles.ranks
  o.Curve = require("moonring.report.curve").new()
  o.RunPage = require("moonring.report.run_page").open({ report_html = true,
    output_dir = scratch }, true)
  o.Recorder = moonring.trace.recorder()
  o.MemoryWatch = moonring.trainer.memory_watch()
  o.MemoryReport = memory_report.start({ memory_report = true, output_dir = scratch },
    o.Mesh)
  o.Chat = chat.new(o.Model, o.Tokenizer, o.Template, {})
  o.Batch = batch.new(o.MicroBatch, o.Attention, o.Mesh)
  local sft_keys = moonring.config.load(nil, { "stage=sft" })
  o.Engine = moonring.engine.new { mesh = o.Mesh, model = o.Model, attention = o.Attention,
    objective = stages.of(sft_keys).objective(sft_keys, o.Model) }
  o.Passes = require("moonring.run.passes").new(o.Engine, o.Step, 1, 1)
  o.Run = moonring.run.open { model_name_or_path = model_folder, dataset = "own",
    dataset_dir = data_folder, output_dir = scratch .. "/run", finetuning_type = "full",
    template = "chatml", cutoff_len = 64, max_steps = 1, trace = "1" }
  o.LayoutRecords, o.Times, o.Traces = o.Run.layouts, o.Run.times, o.Run.trace
  o.StepTimes = o.Run.log.step_times
  o.EngineSettings = require("moonring.config.engine_settings").open({ deepspeed = {} },
    "deepspeed")
  o.ZClip = moonring.trainer.zclip()
  o.LossScale = loss_scale.new()
  o.ShownWeights = require("moonring.run.checkpoint.shown_weights").new { states = o.States,
    optimizer = o.Optimizer }
  o.Updates = updates.new({ on_nonfinite = "stop", max_grad_norm = 1,
    spike_clip = "zclip" }, { engine = o.Engine, states = o.States, optimizer = o.Optimizer,
    shown = o.ShownWeights, say = print })
  local block = moonring.comm.parameters { moonring.comm.parameter("model.layers.0.w",
    moonring.tensor { 1, 2 }) }
  o.BlockTurns = require("moonring.choices.block_turns").new({ badam_switch_mode = "ascending",
    badam_switch_interval = 2 }, block, block, moonring.trainer.sgd)
  o.BlockTurns:begin(1)
  o.Readings = require("moonring.base.readings").new()
  o.Pace = pace.new(o.Mesh, print)
  o.Pace:begin()
  o.Router = router.new { model = o.Model, coefficient = 0.01, size = 4 }
  o.BestEvaluation = require("moonring.run.checkpoint.best").new()
  o.Checkpoints = checkpoints.new { dir = scratch, mesh = o.Mesh,
    save = function() return {} end, say = print }
  local saved = scratch .. "/checkpoint-1"
  moonring.system.make_folder(saved .. ".partial")
  local going_on = moonring.config.load(nil, { "resume_from_checkpoint=" .. saved })
  local state = { run = "1", step = 1, config = resume_changes.remembered(
    going_on), data = "digest", examples_per_step = 2, parts = { journal = {} } }
  moonring.system.write(saved .. ".partial/training_state.json", moonring.system.json_encode(state))
  o.HeldFiles = moonring.trainer.hold_files { folder = saved .. ".partial", budget = 1e6 }
  o.Publisher = moonring.trainer.publish_checkpoint { draft = saved .. ".partial", folder = saved,
    names = { "training_state.json" }, step = 1 }
  o.Publisher:wait()
  o.Resumed = resume.find(going_on, o.Mesh)
  local rank_1 = { rank = function() return 1 end } -- rank 1 writes no log
  o.Journal = journal.open(moonring.config.load(nil, {}),
    { mesh = rank_1, counts = {}, checkpoint = o.Checkpoint, dataset = o.Dataset,
    attention = o.Attention })
end

-- The objects of `moonring serve`, over the same model.
local function serve_objects(o)
  local service = moonring.serve.open(moonring.serve.settings { model_folder, "port=0",
    "output_dir=" .. scratch .. "/serve" })
  local base = service.bases:open(service.bases.list[1].name)
  local new_models = require "moonring.serve.new_models"
  local recipe = new_models.recipe({ base_model = base.name, lora_config = { rank = 2 } }, 1)
  local read = { n = 1, stop = {}, include_stop_str_in_output = false }
  local request = { read = read, form = {}, prompts = { {} }, tokenizer = base.tokenizer }
  o.Service, o.Bases, o.Base = service, service.bases, base
  o.Trained = new_models.new(service, "s:train:0", recipe)
  o.Queue = require("moonring.serve.generation").new(service)
  o.Reply = require("moonring.serve.openai.reply").new(service, {}, request)
  o.Choice = o.Reply.choices[1]
  o.AnswerText = o.Choice.answer
end
serve_objects(objects)

-- The live table of each documented class with functions.
local live = {}
for module, class in pairs(modules) do
  local loaded, what = pcall(require, module)
  if class == "" then what = nil end -- a function, or a table of names
  check(loaded, "lua/types documents ", module, ", which does not load: ", tostring(what))
  if class ~= "" then live[class] = loaded and what or nil end
end
local native = debug.getregistry()["moonring.classes"]
for name, metatable in pairs(native) do live["moonring." .. name] = metatable end
for _, name in ipairs { "Batch", "Chat", "Checkpoints", "Journal", "MemoryReport", "Pace",
  "Readings", "Resumed", "Router", "Engine", "Passes", "Updates", "BestEvaluation", "Run", "Module",
  "Weight", "OwnOptimizer", "OwnSchedule", "RuleParameter", "Source", "FedStream", "FedSteps",
  "CustomMicroBatches", "FittingSteps", "BlockTurns", "Rounds", "ShownWeights", "LossScale",
  "Rewards", "Rollouts", "Trackers", "RunFiles", "GrowingFile", "Curve", "RankTimes", "RunClock",
  "RunPage", "RunState", "LayoutRecords", "DownloadProgress", "Times", "Traces", "StepTimes",
  "EngineSettings", "Gradients", "RunList", "ChatDesk", "ChatQueue", "ChatProcess", "Service",
  "serve.Bases", "serve.Base", "serve.Trained", "serve.Queue", "serve.openai.Reply",
  "serve.openai.Choice", "serve.openai.AnswerText" } do
  live["moonring." .. name] = getmetatable(objects[name:match "%a+$"])
end

-- Operators are found by their names, as functions and as methods.
local operators = classes["moonring.TensorOperators"].functions
live["moonring.TensorOperators"] = {}
for name in pairs(operators) do live["moonring.TensorOperators"][name] = moonring.ops[name] end
for name, each in pairs(operators) do
  local of_tensor = classes["moonring.Tensor"].functions
  if of_tensor[name] == each then of_tensor[name] = nil end
end

-- Sections
-- ------------------------------------------------------------------------------------------

local sections = {}
local HIDDEN = { __index = true, __newindex = true, __gc = true, __name = true, __tostring = true,
  __eq = true, __lt = true, __le = true } -- comparisons of tensors, which are refused

-- Checks a member of a live class. `known`: its annotation.
local function check_member(class, known, name, value)
  if HIDDEN[name] or type(name) == "number" then
    return -- members of every class, or list items
  end
  local operator = type(name) == "string" and name:match "^__(.*)$"
  if operator then
    check(known.operators[operator], class, ": the operator ", operator, " is not documented")
  elseif type(value) == "function" then
    check(known.functions[name] or known.fields[name], class, ": the function ", name,
      " is not documented")
  else
    check(known.fields[name], class, ": the field ", name, " is not documented")
  end
end

-- All members of the live API are documented.
function sections.documented()
  for name in pairs(package.loaded) do
    local is_data = name:find "^moonring%.choices%.stages%."
      or name:find "^moonring%.config%.keys%."
    if name:find "^moonring" and not is_data then
      check(modules[name], name, " is described nowhere")
    end
  end
  for _, name in ipairs(keys_of(native)) do
    check(objects[name], "this test makes no ", name, ": a new class needs an object here")
  end
  for class, members in pairs(live) do
    local known = classes[class]
    check(known, "class ", class, " is not in lua/types")
    for name, value in pairs(known and members or {}) do
      check_member(class, known, name, value)
    end
  end
end

-- All documented members exist.
function sections.exists()
  for name, class in pairs(classes) do
    local members = live[name]
    check(members or not class.bound, class.place, "there is no ", name)
    for called, each in pairs(members and class.functions or {}) do
      check(type(members[called]) == "function", each.place, "there is no ", name, each.method
        and ":" or ".", called)
    end
    for operator in pairs(members and class.operators or {}) do
      check(members["__" .. operator], class.place, name, " has no operator ", operator)
    end
    local object = objects[name:match "%.(%u%a*)$" or ""] or members
    for field, described in pairs(object and class.bound and class.fields or {}) do
      if not field:find "^%[" and not described.optional then
        local value = object[field]
        check(value ~= nil, class.place, name, " has no field ", field)
        if live[described.type] and type(value) == "table"
          and not objects[described.type:match "%.(%u%a*)$" or ""] then
          check(value == live[described.type], class.place, name, ".", field, " is not ",
            described.type)
        end
      end
    end
  end
end

-- Values by documented type, for the calls below. Each call is rejected for a reason that is
-- checked, so nothing is executed.
local wrong = coroutine.create(function() end) -- no function accepts a coroutine

local function example(kind)
  if kind == "moonring.WholeTemplate" then return templates.find "chatml" end
  local object = objects[kind:match "^moonring%.(%u%a*)$" or ""]
  if object then return object end
  if kind:find "%[%]%[%]$" then return { { 1 } } end
  if kind:find "^string%[%]" then return { "x" } end
  if kind:find "%[%]$" or kind == "table" or kind:find "^table<" or classes[kind] then return {} end
  if kind == "integer" or kind == "number" or kind == "any" then return 1 end
  if kind == "boolean" then return true end
  if kind == "function" or kind:find "^fun%(" then return function() end end
  return "x"
end

local function wanted(kind)
  local bound = kind:match "^moonring%.(%u%a*)$"
  if bound and objects[bound] then return bound end
  if kind == "integer" or kind == "number" then return "number" end
  if kind == "boolean" then return "boolean" end
  if kind == "string" or kind:find '^"' or aliases[kind] then return "string" end
  if kind == "function" or kind:find "^fun%(" then return "function" end
  if kind == "any" then return nil end
  return "table"
end

local function check_lua_parameters(label, each, f)
  local info = debug.getinfo(f, "u")
  local names = {}
  for i = 1, info.nparams do names[i] = debug.getlocal(f, i) end
  if each.method then check(table.remove(names, 1) == "self", label, " is no method") end
  if info.isvararg then names[#names + 1] = "..." end
  local documented = {}
  for i, param in ipairs(each.params) do documented[i] = param.name end
  check(table.concat(names, ", ") == table.concat(documented, ", "), label, "(",
    table.concat(names, ", "), ") is documented with (", table.concat(documented, ", "), ")")
end

-- A bound function converts its arguments from left to right before it does anything. If argument i
-- has a wrong type, the error names the expected type of argument i.
-- How a message names argument i; a method's first is its object.
local function place_of(i, is_method)
  if is_method and i == 1 then return "the object before the colon" end
  return "argument " .. (is_method and i - 1 or i)
end

local function check_bound_parameters(label, class, each, f)
  local params = {}
  if each.method then params[1] = { name = "self", type = class } end
  for _, param in ipairs(each.params) do params[#params + 1] = param end
  local values = {}
  for i, param in ipairs(params) do
    if param.name == "..." then break end
    local want = wanted(param.type)
    if want then
      values[i] = wrong
      local done, message = pcall(f, unpack(values, 1, i))
      local expected = tostring(message):match(place_of(i, each.method)
        .. ": expected an? (.-), got a thread")
      if expected == "integer" then expected = "number" end
      check(not done and expected == want, label, ": ", param.name,
        " is documented as ", param.type, "; a thread there: ",
        done and "is taken" or tostring(message))
    end
    if want and not param.optional then
      local done, message = pcall(f, unpack(values, 1, i - 1))
      check(not done and (message:find(place_of(i, each.method))
        or message:find "option '.-' is missing"), label, ": ", param.name,
        " is documented as needed; without it: ", done and "all is well" or tostring(message))
    end
    local after = params[i + 1] and params[i + 1].name ~= "..." and wanted(params[i + 1].type)
    if param.optional and after then
      values[i], values[i + 1] = nil, wrong
      local _, message = pcall(f, unpack(values, 1, i + 1))
      check(tostring(message):find(place_of(i + 1, each.method)), label, ": ", param.name,
        " is documented as optional; without it: ", tostring(message))
    end
    values[i], values[i + 1] = example(param.type), nil
  end
end

-- Lua functions have the documented parameter names, and bound functions the documented types.
function sections.parameters()
  for name, class in pairs(classes) do
    for called, each in pairs(class.functions) do
      local f = live[name] and live[name][called]
      local label = name .. (each.method and ":" or ".") .. called
      -- Skips members that are not functions, which the section "exists" reports, and operators,
      -- whose schemas are LibTorch's.
      local is_ours = type(f) == "function" and operators[called] ~= each
      if is_ours and debug.getinfo(f, "S").what == "C" then
        check_bound_parameters(label, name, each, f)
      elseif is_ours then
        check_lua_parameters(label, each, f)
      end
    end
  end
end

-- Returns the error of a bound function for these options. Each call ends in an error before it
-- does anything.
local function options_error(f, values, place, options)
  values[place] = options
  local done, message = pcall(f, unpack(values, 1, place))
  return done and "(no error)" or tostring(message)
end

local function check_options(label, f, values, place, record)
  local function options(with)
    local t = { ["?"] = 1 } -- an unknown option
    for field, each in pairs(record.fields) do
      if not each.optional then t[field] = example(each.type) end
    end
    for field, value in pairs(with or {}) do t[field] = value end
    return t
  end
  local message = options_error(f, values, place, options())
  local known = {}
  for field in (message:match "known: (.*)$" or ""):gmatch "[^%s,]+" do known[field] = true end
  check(message:find("unknown option '?'", 1, true), label,
    ": with its needed options and an unknown one: ", message)
  check(table.concat(keys_of(known), ", ") == table.concat(keys_of(record.fields), ", "), label,
    " takes the options ", table.concat(keys_of(known), ", "),
    "; ", record.name, " documents ", table.concat(keys_of(record.fields), ", "))
  for field, each in pairs(record.fields) do
    local about = label .. " { " .. field .. " }"
    local want = wanted(each.type)
    message = options_error(f, values, place, options { [field] = wrong })
    check(message:find(("option '%s': expected a %s, got "):format(field, want), 1, true), about,
      " is documented as ", each.type, "; a thread there: ", message)
    if each.type == "integer" or each.type == "number" then
      message = options_error(f, values, place, options { [field] = 0.5 })
      check((message:find "expected an integer" ~= nil) == (each.type == "integer"), about,
        " is documented as ", each.type, "; 0.5 there: ", message)
    end
    if not each.optional then
      local without = options()
      without[field] = nil
      message = options_error(f, values, place, without)
      check(message:find(("option '%s' is missing"):format(field), 1, true), about,
        " is documented as needed; without it: ", message)
    end
  end
end

-- Bound functions accept exactly the documented options, with the documented types.
function sections.options()
  local records = 0
  for name, class in pairs(classes) do
    for called, each in pairs(class.functions) do
      local f = live[name] and live[name][called]
      local values = { each.method and objects[name:match "%.(%u%a*)$"] or nil }
      for _, param in ipairs(each.params) do
        local record = classes[param.type]
        if record and next(record.fields) and not record.bound and type(f) == "function"
          and debug.getinfo(f, "S").what == "C" then
          records = records + 1
          check_options(name .. (each.method and ":" or ".") .. called, f, values, #values + 1,
            record)
        end
        values[#values + 1] = example(param.type)
      end
    end
  end
  check(records >= 17, "only ", records, " functions with options were found: is the parser of "
    .. "this test broken?")
end

-- Tables that Lua modules return or accept have the documented fields.
function sections.records()
  local function fields(label, record, value)
    for name, each in pairs(classes[record].fields) do
      if not each.optional then
        check(value[name] ~= nil, label, " lacks ", name, ", which ", record, " documents")
      end
    end
    for name in pairs(value) do
      check(type(name) == "number" or classes[record].fields[name], label, " has ", tostring(name),
        ", which ", record, " does not document")
    end
  end
  for _, heading in ipairs(require "moonring.config.keys") do
    for _, row in ipairs(heading.rows) do
      fields("the row of " .. row[1], "moonring.KeyRow",
        { [1] = row[1], choices = row.choices, others = row.others, only = row.only,
        ignored = row.ignored,
        ["[1]"] = row[1], ["[2]"] = row[2], ["[3]"] = row[3], ["[4]"] = row[4] })
      for name in pairs(row) do
        check(type(name) == "number" or classes["moonring.KeyRow"].fields[name], "the row of ",
          row[1], " has ", tostring(name))
      end
    end
  end
  local generated = require("moonring.config.key_types").text()
  check(moonring.system.read(types_folder .. "/configuration.lua") == generated,
    "lua/types/configuration.lua is not what docs/configuration_types.lua makes of the keys")
  check(moonring.system.read(types_folder .. "/operators.lua")
    == require("moonring.commands.operator_types").text(),
    "lua/types/operators.lua is not what docs/operator_types.lua makes of LibTorch's schemas")
  check(moonring.system.read(types_folder .. "/trainer_options.lua")
    == require("moonring.commands.option_types").text(),
    "lua/types/trainer_options.lua is not what docs/option_types.lua makes of the rules' table")
  local defaults = moonring.config.load(nil, {})
  fields("run.counts", "moonring.Counts", batching.of(defaults, 10, 1))
  moonring.system.write(scratch .. "/probe.json", '{"input_ids": [1, 2], "labels": [1, 2]}')
  fields("probe.read", "moonring.ProbeInput", probe.read(scratch .. "/probe.json", 100))
  fields("Checkpoint:facts", "moonring.CheckpointFacts", objects.Checkpoint:facts())
  fields("Checkpoint:parts", "moonring.CheckpointPart", objects.Checkpoint:parts()[1])
  fields("Checkpoint:linear_maps", "moonring.LinearMap", objects.Checkpoint:linear_maps()[1])
  fields("Checkpoint:packed_sizes", "moonring.PackedSizes",
    objects.Checkpoint:packed_sizes "nf4")
  fields("inspect.memory", "moonring.RecipeMemory",
    inspect.memory(objects.Checkpoint, 64)[1])
  local sampling = chat.sampling(defaults)
  for name in pairs(sampling) do
    check(classes["moonring.GenerateOptions"].fields[name], "chat.sampling has ", name)
  end
  for _, name in ipairs { "Batch", "Chat", "Checkpoints", "Journal", "Resumed", "Router",
    "Engine" } do
    fields(name, "moonring." .. name, objects[name])
  end
end

-- Every object can be printed, can be closed twice, reports that it is closed, and then rejects
-- every use.
function sections.closed()
  for name, metatable in pairs(native) do
    local object = objects[name]
    local text = tostring(object)
    check(text:lower():find("^" .. name:lower()) and not text:find "0x", name, " prints as ", text)
    object:close()
    check(pcall(object.close, object), name, ": a second close is an error")
    check(tostring(object) == name .. " (closed)", name, ": closed, it prints as ",
      tostring(object))
    for called, f in pairs(metatable) do
      if type(f) == "function" and not called:find "^__" and called ~= "close" then
        local done, message = pcall(f, object)
        check(not done and message:find "is closed", name, ":", called, " of a closed one: ", done
          and "all is well" or tostring(message))
      end
    end
  end
end

sections[section]()
table.sort(failures)
if #failures > 0 then error("\n" .. table.concat(failures, "\n"), 0) end
