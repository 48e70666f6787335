--- The messages that wait for an answer in the chat of `moonring watch`. One process answers them
-- in turn, with one model at a time; each answer is sent as lines of JSON while it is generated. A
-- browser that closes its connection stops its answer.
local chat_process = require "moonring.report.chat_process"
local system = require "moonring.native.system"

---@class moonring.chat_queue
local chat_queue = {}

--- A message whose HTTP answer has begun.
---@class moonring.ChatJob
---@field id integer of the HTTP request
---@field request table for the process: texts, system, sampling
---@field model moonring.ChatModel
---@field said? string the last status that was sent
---@field is_prepared? boolean whether the process for its model was started
---@field is_sent? boolean whether the process has the request
---@field stops? number when it was asked to stop, by system.clock

---@class moonring.ChatQueue
---@field server moonring.PageServer
---@field jobs moonring.ChatJob[] the first one is being answered
---@field process? moonring.ChatProcess
---@field used number when the last answer ended, by system.clock
local ChatQueue = {}
ChatQueue.__index = ChatQueue

local GLANCE = 0.02      -- seconds between two looks at the process while it is busy
local IDLE_SECONDS = 300 -- after which the process is ended
local PATIENCE = 10      -- seconds in which an answer stops; then the process is ended

--- An empty queue; no process runs.
---@param server moonring.PageServer
---@return moonring.ChatQueue
function chat_queue.new(server)
  return setmetatable({ server = server, jobs = {}, used = system.clock() }, ChatQueue)
end

--- Adds a message at the end.
---@param job moonring.ChatJob
function ChatQueue:add(job) self.jobs[#self.jobs + 1] = job end

local function send(self, job, event)
  return self.server:send(job.id, system.json_encode(event) .. "\n")
end

-- Sends a status if it has changed.
local function say(self, job, status)
  if job.said ~= status then send(self, job, { status = status }) end
  job.said = status
end

local function is_gone(self, job) return not self.server:send(job.id, "") end

local function remove(self, i)
  self.server:finish(self.jobs[i].id)
  table.remove(self.jobs, i)
  self.used = system.clock()
end

local function end_process(self)
  if self.process then self.process:close() end
  self.process = nil
end

-- Starts the process for a job's model, unless it runs. A process with another model is ended
-- first: two models may not fit into memory.
local function prepare(self, job)
  if job.is_prepared then return end
  job.is_prepared = true
  local held = self.process
  local is_right = held and held.key == chat_process.key(job.model) and pcall(held.events, held)
  if is_right then return end
  end_process(self)
  self.process = chat_process.start(job.model)
end

-- Stops the answer to the first job, whose browser has gone.
local function stop(self, job)
  if not job.is_sent then return remove(self, 1) end
  if not job.stops then
    job.stops = system.clock()
    self.process:send { stop = true }
  elseif system.clock() - job.stops > PATIENCE then
    end_process(self)
    remove(self, 1)
  end
end

-- Forwards an event of the process; returns whether it was the last one of the answer.
local function forward(self, job, event)
  send(self, job, event)
  if not (event.done or event.error) then return false end
  if not self.process.loaded then end_process(self) end
  remove(self, 1)
  return true
end

local function advance(self, job)
  prepare(self, job)
  for _, event in ipairs(self.process:events()) do
    if forward(self, job, event) then return end
  end
  if is_gone(self, job) then return stop(self, job) end
  if not self.process.loaded then return say(self, job, "loading the model") end
  if job.is_sent then return end
  job.is_sent = true
  for _, note in ipairs(self.process.notes) do send(self, job, { note = note }) end
  self.process:send(job.request)
  say(self, job, "answering")
end

-- Removes waiting jobs whose browser has gone, and sends the others their place.
local function refresh_waiting(self)
  for i = #self.jobs, 2, -1 do
    if is_gone(self, self.jobs[i]) then remove(self, i) end
  end
  for i = 2, #self.jobs do
    say(self, self.jobs[i], ("waiting: %d before this one"):format(i - 1))
  end
end

--- Moves the answers forward. Call it after each wait for a request.
function ChatQueue:tick()
  refresh_waiting(self)
  local job = self.jobs[1]
  if job then
    local ok, why = pcall(advance, self, job)
    if ok then return end
    end_process(self)
    send(self, job, { error = chat_process.ended(why) })
    if self.jobs[1] == job then remove(self, 1) end
  elseif self.process and system.clock() - self.used > IDLE_SECONDS then
    end_process(self)
  end
end

--- How many seconds may pass until the next tick.
---@return number
function ChatQueue:pause()
  if self.jobs[1] then return GLANCE end
  if not self.process then return 60 end
  return math.max(GLANCE, math.min(60, self.used + IDLE_SECONDS - system.clock()))
end

--- What the process does.
---@return "off" | "idle" | "loading" | "answering"
function ChatQueue:state()
  if not self.process then return "off" end
  return not self.jobs[1] and "idle" or self.process.loaded and "answering" or "loading"
end

--- Ends the process, if there is one.
function ChatQueue:close() end_process(self) end

return chat_queue
