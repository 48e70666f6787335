--- The HTTP requests of the chat of `moonring watch`: a message, the models of a run, and the
-- state of the chat.
local chat_models = require "moonring.report.chat_models"
local chat_queue = require "moonring.report.chat_queue"
local chat_request = require "moonring.report.chat_request"
local errors = require "moonring.base.errors"
local shell = require "moonring.base.shell"
local system = require "moonring.native.system"

---@class moonring.chat_desk
local chat_desk = {}

---@class moonring.ChatDesk
---@field server moonring.PageServer
---@field list moonring.RunList
---@field queue moonring.ChatQueue
local ChatDesk = {}
ChatDesk.__index = ChatDesk

local MOST = 16 -- messages that wait

--- The desk of a server.
---@param server moonring.PageServer
---@param list moonring.RunList
---@return moonring.ChatDesk
function chat_desk.new(server, list)
  return setmetatable({ server = server, list = list, queue = chat_queue.new(server) }, ChatDesk)
end

-- The device that the model may use. While a watched run trains, its GPU's memory is its own.
local function device(self)
  for _, run in ipairs(self.list.runs) do
    if run.state == "running" then return "cpu" end
  end
  return "auto"
end

local GONE = "%s of %s is not there any more: the run keeps its newest checkpoints only "
  .. "(save_total_limit); choose another"

local function run_named(self, name)
  self.list:refresh()
  return self.list:of(name) or errors.raise("NOT_FOUND", "no run '", name, "' here")
end

-- The model of a message. Errors: NOT_FOUND with a sentence.
local function model_of(self, asked)
  local found = chat_models.of(run_named(self, asked.run).folder)
  for _, each in ipairs(found.models) do
    if each.name == asked.checkpoint then
      return { path = each.folder, words = found.words, directory = found.directory,
        device = device(self), modified = each.modified }
    end
  end
  if found.why then errors.raise("NOT_FOUND", asked.run, ": ", found.why) end
  errors.raise("NOT_FOUND", GONE:format(asked.checkpoint, asked.run))
end

local function refusal(status, why) return { status = status, body = why .. "\n" } end

-- The answer to a request that raised an error.
local function refused(why)
  return refusal(errors.is(why, "NOT_FOUND") and 404 or 400, errors.words(why))
end

--- Takes a message. Returns an answer that refuses it, or nothing: then its answer has begun.
---@param request moonring.PageRequest
---@return moonring.PageAnswer?
function ChatDesk:take(request)
  if not request.type:find "^application/json" then
    return refusal(415, "expected the Content-Type application/json")
  elseif #self.queue.jobs >= MOST then
    return refusal(503, ("%d messages wait already; try again later"):format(MOST))
  end
  local ok, asked = pcall(chat_request.read, request.body)
  if not ok then return refused(asked) end
  local found, model = pcall(model_of, self, asked)
  if not found then return refused(model) end
  self.server:begin(request.id, "application/x-ndjson; charset=utf-8")
  self.queue:add { id = request.id, model = model,
    request = { texts = asked.texts, system = asked.system, sampling = asked.sampling } }
end

local function json(value)
  return { type = "application/json", body = system.json_encode(value) }
end

--- The models of a run, for the page.
---@param name string
---@return moonring.PageAnswer
function ChatDesk:models(name)
  local ok, run = pcall(run_named, self, name)
  if not ok then return refused(run) end
  local found = chat_models.of(run.folder)
  local models = {}
  for i, each in ipairs(found.models) do
    models[i] = { name = each.name, kind = each.kind,
      command = shell.line { "moonring", "chat", each.folder, unpack(found.words) } }
  end
  return json { run = name, checkpoints = models, why = found.why, system = found.system,
    options = chat_request.defaults() }
end

--- The state of the chat, for the page.
---@return moonring.PageAnswer
function ChatDesk:state()
  return json { state = self.queue:state(), waiting = math.max(0, #self.queue.jobs - 1) }
end

return chat_desk
