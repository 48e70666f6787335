--- Brings jobs from the door to all ranks, runs them, and returns their results. A job is a
-- request: its route, its body, and a seed that was drawn when it came. Handlers are functions of
-- these and of earlier jobs, so that the journal of jobs can be replayed.
local errors = require "moonring.base.errors"
local native = require "moonring.native.serve"
local routes = require "moonring.serve.routes"
local states = require "moonring.serve.states"
local system = require "moonring.native.system"

---@class moonring.serve.deliveries
local deliveries = {}

local WAIT = 1 -- seconds in which rank 0 waits for a job, while the others wait for rank 0

--- A job: a client's request, as the door hands it over.
---@class moonring.serve.Job
---@field id string
---@field route string
---@field body string
---@field type string the body's media type
---@field seed integer for the draws of a request that brings no seed: in [0, 2^53)
---@field session string
---@field model string "" if it is not of a model
---@field seq integer its place in the order of the model's requests; 0: none
---@field replay boolean whether its result is known, and it only runs again for its effect
---@field held boolean whether the client waits for the answer; else it polls for a promise
---@field weights? string route asample: the name of the weights (Service:weights)

--- A handler runs on every rank with the same job. It returns a table, which is sent as JSON, or
--- one with `body`, `type` and `status`; only rank 0's result is used.
---@alias moonring.serve.Handler
---| fun(service: moonring.Service, job: moonring.serve.Job, request: table): table?

-- Takes the next job, and, if it is sampled, all further jobs that can be sampled with it.
local function take(door)
  if door:ended() ~= 0 then return nil end
  local jobs = { door:next(WAIT) }
  if jobs[1] and routes.sampled(jobs[1].route) then
    repeat
      local more = door:next(0, routes.SAMPLED)
      jobs[#jobs + 1] = more
    until not more
  end
  return jobs
end

-- A list of jobs as one text: their fields as JSON, and their bodies behind it.
local function encode(jobs)
  local heads, bodies = {}, {}
  for i, job in ipairs(jobs) do
    local head = {}
    for name, value in pairs(job) do head[name] = value end
    head.body, head.bytes, bodies[i] = nil, #job.body, job.body
    heads[i] = head
  end
  return system.json_encode { jobs = heads } .. "\n" .. table.concat(bodies)
end

local function decode(text)
  local stop = text:find("\n", 1, true)
  local jobs, place = system.json_decode(text:sub(1, stop - 1), "jobs").jobs, stop + 1
  for _, job in ipairs(jobs) do
    job.body, place = text:sub(place, place + job.bytes - 1), place + job.bytes
    job.bytes = nil
  end
  return jobs
end

--- Sends jobs that only rank 0 has to all ranks. Collective over all ranks.
---@param service moonring.Service
---@param jobs moonring.serve.Job[]
---@return moonring.serve.Job[]
function deliveries.share(service, jobs)
  local text = service.mesh:gather(service.door and encode(jobs) or "")[1]
  return service.door and jobs or decode(text)
end

--- The next jobs, which may be none; nil when the service ends. Collective over all ranks.
---@param service moonring.Service
---@return moonring.serve.Job[]?
function deliveries.next(service)
  local mesh, door = service.mesh, service.door
  for _, line in ipairs(door and door:notes() or {}) do service:note(line) end
  local jobs = door and take(door)
  if mesh:size() == 1 then return jobs end
  local text = mesh:gather(door and (jobs and encode(jobs) or "end") or "")[1]
  if text == "end" then return nil end
  return door and jobs or decode(text)
end

--- Hands a list of rank 0 to all ranks. Collective over all ranks.
---@param service moonring.Service
---@param jobs moonring.serve.Job[] of rank 0; ignored on others
---@return moonring.serve.Job[]
function deliveries.share(service, jobs)
  local text = service.mesh:gather(service.door and encode(jobs) or "")[1]
  return service.door and jobs or decode(text)
end

-- The category of an error in an answer: whether the user can mend it.
local USERS = { INVALID_ARGUMENT = true, NOT_FOUND = true, ALREADY_EXISTS = true,
  PERMISSION_DENIED = true, UNIMPLEMENTED = true, OUT_OF_RANGE = true, FAILED_PRECONDITION = true }

-- Errors after which the ranks may have stopped at different places.
local BROKEN = { ABORTED = true, UNAVAILABLE = true, DEADLINE_EXCEEDED = true, CANCELLED = true }

--- Answers a job with an error. Errors that end the service are raised again.
---@param service moonring.Service
---@param job moonring.serve.Job
---@param why any
function deliveries.refuse(service, job, why)
  local code = errors.code(why)
  if service.mesh:size() > 1 and BROKEN[code] or code == "CANCELLED" then error(why, 0) end
  if not USERS[code] then service:note(job.route .. ": " .. tostring(why)) end
  if not service.door then return end
  if job.held then
    routes.refuse_held(service.door, job, code, errors.words(why))
  else
    service.door:fail(job.id, errors.words(why), USERS[code] and "user" or "server")
  end
end

local function request_of(job)
  if job.route == "forward_backward" or job.route == "forward" then
    return native.read_forward_backward(job.body, job.type)
  end
  return job.body == "" and {} or system.json_decode(job.body, job.route)
end

local function answer(service, job, result)
  if not service.door or not result then return end
  local body, kind = result.body or system.json_encode(result), "application/json"
  if result.body then kind = result.type or kind end
  if job.held then
    service.door:reply(job.id, result.body and result.status or 200, kind, body)
  else
    service.door:done(job.id, body, kind)
  end
end

--- Runs jobs and answers them. A job that fails does not concern the others. Collective over all
--- ranks.
---@param service moonring.Service
---@param jobs moonring.serve.Job[]
function deliveries.run(service, jobs)
  if jobs[1] and routes.sampled(jobs[1].route) then return routes.sample(service, jobs) end
  for _, job in ipairs(jobs) do
    local handler = service.routes[job.route]
    local ok, why = pcall(function()
      if not handler then errors.raise("UNIMPLEMENTED", "no handler of ", job.route) end
      answer(service, job, handler(service, job, request_of(job)))
    end)
    if not ok then deliveries.refuse(service, job, why) end
    states.save_due(service) -- after the result, which would be lost if the process ended between
  end
end

return deliveries
