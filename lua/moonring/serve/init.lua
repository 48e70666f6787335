--- The service of `moonring serve`: trains and samples for clients of the Tinker API and of
-- OpenAI's completions. Requests are received, put in order and answered on a thread of their own
-- (lua/serve/service.h); this folder runs their jobs. Every rank runs the same jobs in the same
-- order; only rank 0 has the door, through which jobs come and results leave.
local access = require "moonring.serve.access"
local attention = require "moonring.choices.strategies"
local base_models = require "moonring.serve.bases"
local compute = require "moonring.choices.compute"
local deliveries = require "moonring.serve.deliveries"
local launch = require "moonring.run.launch"
local policy = require "moonring.model.policy"
local routes = require "moonring.serve.routes"
local settings = require "moonring.serve.settings"
local states = require "moonring.serve.states"
local system = require "moonring.native.system"
local terminal = require "moonring.base.terminal"
local weights = require "moonring.serve.weights"

---@class moonring.serve
local serve = {}

--- Reads the words of the command: [MODEL|ADAPTER|CONFIG.yaml] and keys and values. Errors:
--- INVALID_ARGUMENT.
---@param words string[] `arg`
---@return moonring.Configuration
function serve.settings(words) return settings.read(words) end

--- What handlers of jobs receive.
---@class moonring.Service
---@field config moonring.Configuration
---@field mesh moonring.Mesh of all ranks
---@field attention moonring.Attention
---@field folder string output_dir
---@field bases moonring.serve.Bases
---@field models table<string, moonring.serve.Trained> trained models by model_id
---@field samplers table<string, moonring.serve.Sampler> by sampling_session_id
---@field door? moonring.ServeDoor on rank 0
---@field lock? moonring.FolderLock on rank 0
---@field routes table<string, function> handlers of jobs by route; may be extended
local Service = {}
Service.__index = Service

--- Opens the service: starts the ranks, loads the model, finds the states of trained models in
--- output_dir, and begins to listen. Errors: INVALID_ARGUMENT for the configuration;
--- UNAVAILABLE if the port is in use; FAILED_PRECONDITION if another process has locked output_dir.
---@param c moonring.Configuration of serve.settings
---@return moonring.Service
function serve.open(c)
  system.outlive_stdout()
  policy.fetch(c)
  launch(c.sequence_parallel_size, compute.ranks(c), c.max_restarts)
  local self = setmetatable({ config = c, folder = c.output_dir, models = {}, samplers = {},
    routes = routes.all() }, Service)
  self.mesh = compute.mesh(c)
  access.check(self)
  self.bases = base_models.new(c)
  local first = self.bases:open(self.bases.list[1].name)
  self.attention = attention.open(c, self.mesh, first.model)
  access.open(self, states.restore(self))
  weights.publish_all(self)
  for _, list in ipairs { c.notes, first.notes } do
    for _, line in ipairs(list) do self:note(line) end
  end
  return self
end

--- Writes a line to stderr, on rank 0.
---@param line string
function Service:note(line)
  if self.mesh:rank() == 0 then terminal.note(line, "\n") end
end

--- Prints the lines that a user copies to reach the service, on rank 0.
function Service:announce()
  if not self.door then return end
  for _, line in ipairs(access.lines(self)) do terminal.print(line) end
  io.flush()
  system.started()
end

--- Iterates over jobs until a signal ends the service: lists of one job, or of several that are
--- sampled together; the same on every rank. Collective over all ranks.
---@return fun(): moonring.serve.Job[]?
function Service:jobs()
  return function() return deliveries.next(self) end
end

--- Runs a list of jobs, and answers them. Collective over all ranks.
---@param jobs moonring.serve.Job[]
function Service:run(jobs) deliveries.run(self, jobs) end

--- The weights of a name: a base model, tinker:// path, or sampling session. Collective over all
--- ranks. Errors: NOT_FOUND.
---@param name string
---@return moonring.serve.Weights
function Service:weights(name) return weights.of(self, name) end

--- Makes a fact known to the door, which then answers questions about it at once.
---@param kind "model" | "run" | "weights" | "sampler" | "checkpoint"
---@param id string
---@param fact table
function Service:publish(kind, id, fact)
  if self.door then self.door:publish(kind, id, system.json_encode(fact)) end
end

--- Removes such a fact.
---@param kind string
---@param id string
function Service:withdraw(kind, id)
  if self.door then self.door:withdraw(kind, id) end
end

--- Stops listening and unlocks output_dir. Jobs that wait are kept in the journal.
function Service:close()
  if not self.door then return end
  self.door:interrupt()
  self.door:close()
  if self.lock then self.lock:close() end
end

return serve
