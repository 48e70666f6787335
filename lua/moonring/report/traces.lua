--- Records a trace of some steps of a run (the key `trace`): what each rank did and when. The trace
-- is one file in output_dir, for Perfetto and `moonring explain` (docs/traces.md).
local errors = require "moonring.base.errors"
local machine = require "moonring.base.machine"
local step_range = require "moonring.config.step_range"
local system = require "moonring.native.system"
local trace = require "moonring.native.trace"

---@class moonring.traces
local traces = {}

---@class moonring.Traces
---@field config moonring.Configuration
---@field mesh moonring.Mesh
---@field device string
---@field times moonring.Times
---@field say fun(line: string)
---@field first integer the first step to trace
---@field last integer
---@field recorder? moonring.Recorder while it records
---@field began? integer the first step that was recorded
---@field step? integer the step in progress
local Traces = {}
Traces.__index = Traces

-- The keys that `moonring explain` needs for its proposals.
local KEYS = { "stage", "finetuning_type", "sequence_parallel_size", "sequence_parallel_mode",
  "bf16",
  "fp16", "pure_bf16", "recompute", "zero_stage", "zero_group", "offload_optimizer",
  "activation_offload", "optim", "local_steps", "gradient_accumulation_steps", "group_by_length",
  "streaming", "dataloader_num_workers", "logging_steps", "save_strategy", "save_steps",
  "eval_strategy", "eval_steps" }

--- Opens the tracing of a run; nil if the key `trace` is absent, or if the steps to trace are over.
---@param run moonring.Run with log, counts and times
---@return moonring.Traces?
function traces.open(run)
  local c = run.config
  local first, last = step_range.of_trace(c)
  if not first then return nil end
  local made, all = run.resumed and run.resumed.step or 0, run.counts.total_steps
  if last <= made or first > all then
    run.log:say(("trace: %s: nothing is traced; the run makes steps %d to %d"):format(c.trace,
      made + 1, all))
    return nil
  end
  return setmetatable({ config = c, mesh = run.mesh, device = run.device, times = run.times,
    first = first, last = last, say = function(line) run.log:say(line) end }, Traces)
end

local function details(self, path)
  local keys = {}
  for _, name in ipairs(KEYS) do keys[name] = self.config[name] end
  return system.json_encode { version = system.version(), file = path, first = self.began,
    last = self.step, sp = self.mesh:sp_size(), dp = self.mesh:dp_size(), keys = keys,
    has_bf16 = self.device ~= "cpu" or machine.cpu_has_bf16() }
end

local DONE = "trace   %s: opens in Perfetto; `moonring explain %s` shows where the time went%s"
local LEFT_OUT = "; %d spans did not fit and were left out, those of tiles first"

-- Writes the trace. If rank 0 cannot write the file, this is logged and the run continues.
local function write(self, recorder)
  local path = ("%s/trace-%d-%d.json"):format(self.config.output_dir, self.began, self.step)
  local how = { path = path, details = details(self, path) }
  if self.mesh:rank() ~= 0 then return recorder:write(self.mesh, how) end
  local ok, left_out = pcall(recorder.write, recorder, self.mesh, how)
  if ok then
    self.say(DONE:format(path, path, left_out > 0 and LEFT_OUT:format(left_out) or ""))
  else
    self.say("the trace was not written: " .. errors.words(left_out) .. "; training continues")
  end
end

-- Stops recording and writes the trace.
local function finish(self)
  local recorder = self.recorder
  self.recorder, self.times.recorder = nil, nil
  recorder:stop(self.mesh)
  write(self, recorder)
  recorder:close()
end

--- Ends the step in progress and begins step k; nil means that there are no more steps. Starting or
--- stopping the recording is collective over all ranks.
---@param k? integer
function Traces:turn(k)
  if self.recorder then self.recorder:finish(1) end
  if self.recorder and (not k or k > self.last) then finish(self) end
  if not k or k < self.first or k > self.last then return end
  if not self.recorder then
    self.recorder, self.began = trace.recorder(), k
    self.recorder:start(self.mesh)
    self.times.recorder = self.recorder
  end
  self.recorder:begin("step", "step", k)
  self.step = k
end

return traces
