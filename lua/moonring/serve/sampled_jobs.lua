--- Runs jobs that sample: all that wait run in one generation, and further ones join it while it
-- runs. A job that is refused or fails does not concern the others.
local errors = require "moonring.base.errors"
local generation = require "moonring.serve.generation"
local job_lists = require "moonring.serve.job_lists"
local refusals = require "moonring.serve.refusals"
local system = require "moonring.native.system"

---@class moonring.serve.sampled_jobs
local sampled_jobs = {}

---@alias moonring.serve.AddSampled fun(service: moonring.Service, queue: moonring.serve.Queue,
---   job: moonring.serve.Job, request: table, weights: moonring.serve.Weights)

--- What a route does with its jobs.
---@class moonring.serve.SampledRoute
--- `weights` returns the name of the weights that a request samples from.
---@field weights fun(request: table): string
--- `add` checks a request and adds it to the queue. Every rank calls it for the first jobs; for
--- jobs that join others only rank 0 does, so it must call no collective.
---@field add moonring.serve.AddSampled

local function request_of(job)
  local request = system.json_decode(job.body, job.route)
  if type(request) ~= "table" then
    errors.fail(job.route, ": expected a JSON object, got ", tostring(request))
  end
  return request
end

-- Adds a job to the queue. `known`: weights by name, of the jobs that were added before. Returns
-- false if the job names other weights and `joins` is true: all ranks must load those together.
local function add(service, queue, job, handlers, known, joins)
  local request = request_of(job)
  local handler = handlers[job.route]
  local name = job.weights or handler.weights(request)
  if not known[name] then
    if joins then return false end
    known[name] = service:weights(name)
    queue:use(known[name]) -- even if `add` then refuses the request: ranks must not differ
  end
  handler.add(service, queue, job, request, known[name])
  return true
end

local function run_together(service, jobs, handlers, takes_more)
  local queue, known, left = generation.new(service), {}, {}
  for _, job in ipairs(jobs) do
    local ok, why = pcall(add, service, queue, job, handlers, known, false)
    if not ok then refusals.refuse(service, job, why) end
  end
  local routes = {}
  for route in pairs(handlers) do routes[#routes + 1] = route end
  local function more()
    local door = service.door
    for job in function() return door:next(0, routes) end do
      local ok, added = pcall(add, service, queue, job, handlers, known, true)
      if not ok then
        refusals.refuse(service, job, added)
      elseif not added then
        left[#left + 1] = job
      end
    end
  end
  queue:run(takes_more and more or nil)
  return left
end

--- Runs jobs, and those that come meanwhile. Collective over all ranks.
---@param service moonring.Service
---@param jobs moonring.serve.Job[] the same on every rank
---@param handlers table<string, moonring.serve.SampledRoute> by route
function sampled_jobs.run(service, jobs, handlers)
  local left = run_together(service, jobs, handlers, true)
  left = job_lists.share(service, left) --[[@as moonring.serve.Job[] ]]
  if left[1] then run_together(service, left, handlers, false) end
end

--- The key of a request's draws: from its seed, or else the job's.
---@param job moonring.serve.Job
---@param seed? number
---@return integer
function sampled_jobs.key(job, seed)
  if seed == nil then return job.seed end
  return tonumber(system.sha1(("seed %.0f"):format(seed)):sub(1, 13), 16)
end

return sampled_jobs
