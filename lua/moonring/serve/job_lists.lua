--- Sends lists of jobs from rank 0, which alone has the door, to all ranks.
local system = require "moonring.native.system"

---@class moonring.serve.job_lists
local job_lists = {}

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

--- Hands a list that rank 0 has to all ranks; nil: there is none. Collective over all ranks.
---@param service moonring.Service
---@param jobs? moonring.serve.Job[] of rank 0; ignored on others
---@return moonring.serve.Job[]?
function job_lists.share(service, jobs)
  local mesh, is_first = service.mesh, service.door ~= nil
  if mesh:size() == 1 then return jobs end
  local text = mesh:gather(is_first and jobs and encode(jobs) or "")[1]
  if text == "" then return nil end
  return is_first and jobs or decode(text)
end

return job_lists
