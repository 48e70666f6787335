--- Brings jobs from the door to all ranks, runs them, and returns their results. A job is a
-- request: its route, its body, and a seed that was drawn when it came. Handlers are functions of
-- these and of earlier jobs, so that the journal of jobs can be replayed.
local errors = require "moonring.base.errors"
local job_lists = require "moonring.serve.job_lists"
local native = require "moonring.native.serve"
local refusals = require "moonring.serve.refusals"
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
---@field replay boolean whether its result is known, and it runs again only for its effect
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

--- The next jobs, which may be none; nil when the service ends. Collective over all ranks.
---@param service moonring.Service
---@return moonring.serve.Job[]?
function deliveries.next(service)
  local door = service.door
  for _, line in ipairs(door and door:notes() or {}) do service:note(line) end
  local jobs = door and take(door)
  return job_lists.share(service, jobs)
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
    if not ok then refusals.refuse(service, job, why) end
    states.save_due(service) -- after the result, which a crash between the two would lose
  end
end

return deliveries
