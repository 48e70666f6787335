--- A service for tests of OpenAI's routes: a real model on this rank, and a door that keeps what is
-- replied.
local attention = require "moonring.native.attention"
local bases = require "moonring.serve.bases"
local comm = require "moonring.native.comm"
local config = require "moonring.config"
local error_form = require "moonring.serve.openai.error_form"
local errors = require "moonring.base.errors"
local openai = require "moonring.serve.openai"
local sampled_jobs = require "moonring.serve.sampled_jobs"
local system = require "moonring.native.system"
local weights = require "moonring.serve.weights"

local openai_service = {}

-- The door: replies by the number of their job.
local Door = {}
Door.__index = Door
function Door:reply(id, status, type, body)
  assert(not self.replies[id], "a second reply")
  self.replies[id] = { status = status, type = type, body = body }
end
function Door:begin(id, type)
  assert(not self.replies[id], "a second reply")
  self.replies[id] = { status = 200, type = type, body = "", parts = {} }
end
function Door:send(id, part)
  local reply = self.replies[id]
  assert(reply.parts and not reply.finished)
  reply.parts[#reply.parts + 1] = part
  return not self:gone(id)
end
function Door:finish(id)
  self.replies[id].finished = true
end
function Door:gone(id)
  local reply = self.replies[id]
  local parts = reply and reply.parts and #reply.parts or 0
  return self.patience[id] ~= nil and parts >= self.patience[id]
end
function Door:ended() return 0 end
function Door:next() return table.remove(self.arriving, 1) end

local Service = {}
Service.__index = Service

--- Opens a service. `words`: keys and values, as on the command line.
function openai_service.open(words)
  local c = config.load(nil, words)
  c.further_models, c.notes = {}, c.notes or {}
  local self = setmetatable({ config = c, folder = c.output_dir, models = {}, samplers = {},
    notes = {} }, Service)
  self.mesh = comm.mesh { sp = c.sequence_parallel_size }
  self.attention = attention.create { mesh = self.mesh, strategy = c.sequence_parallel_mode }
  self.bases = bases.new(c)
  self.jobs = 0
  self.door = self.mesh:rank() == 0 and setmetatable({ replies = {}, patience = {}, arriving = {} },
    Door) or nil
  return self
end

function Service:weights(name) return weights.of(self, name) end
function Service:note(line) self.notes[#self.notes + 1] = line end

--- A job of a route. `body`: a table, or JSON.
function Service:job(route, body, seed)
  self.jobs = self.jobs + 1
  return { id = self.jobs, route = route, held = true, seed = seed or 7, replay = false,
    type = "application/json",
    body = type(body) == "table" and system.json_encode(body) or body }
end

--- Runs jobs together. Returns their replies: with `json`, the decoded body or the decoded parts of
--- a stream.
function Service:run(jobs)
  sampled_jobs.run(self, jobs, openai.handlers)
  local replies = {}
  for i, job in ipairs(jobs) do
    local reply = self.door and self.door.replies[job.id]
    if reply and reply.parts then
      reply.json = {}
      for p, part in ipairs(reply.parts) do
        local text = part:match "^data: (.*)\n\n$"
        reply.json[p] = text == "[DONE]" and text or system.json_decode(text)
      end
    elseif reply then
      reply.json = system.json_decode(reply.body)
    end
    replies[i] = reply
  end
  return replies
end

--- Runs one job.
function Service:ask(route, body, seed)
  local reply = self:run({ self:job(route, body, seed) })[1]
  return reply.json, reply
end

--- Runs a job of a route whose handler returns the response.
function Service:call(route, body)
  local job = self:job(route, body)
  local ok, result = pcall(openai.routes[route], self, job, system.json_decode(job.body))
  if ok then return result end
  error_form.reply(self.door, job, errors.code(result), errors.words(result))
  return system.json_decode(self.door.replies[job.id].body)
end

return openai_service
