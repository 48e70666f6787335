--- The handlers of all jobs, by route. lua/serve/routes.cc has the addresses of routes.
local openai = require "moonring.serve.openai"
local routes_sampling = require "moonring.serve.routes_sampling"
local routes_training = require "moonring.serve.routes_training"
local sampled_jobs = require "moonring.serve.sampled_jobs"

---@class moonring.serve.routes
---@field SAMPLED string[] the names of routes whose jobs are sampled together
local routes = {}

-- Routes whose jobs are sampled together.
local sampled = {}
for _, list in ipairs { routes_sampling.handlers, openai.handlers } do
  for name, handler in pairs(list) do sampled[name] = handler end
end

routes.SAMPLED = {}
for name in pairs(sampled) do routes.SAMPLED[#routes.SAMPLED + 1] = name end

--- Whether jobs of this route are sampled together.
---@param route string
---@return boolean
function routes.sampled(route) return sampled[route] ~= nil end

--- Runs sampled jobs, and those that come meanwhile. Collective over all ranks.
---@param service moonring.Service
---@param jobs moonring.serve.Job[]
function routes.sample(service, jobs) sampled_jobs.run(service, jobs, sampled) end

--- The handlers of all other routes, in a new table.
---@return table<string, moonring.serve.Handler>
function routes.all()
  local all = {}
  for _, list in ipairs { routes_training.handlers, openai.routes } do
    for name, handler in pairs(list) do all[name] = handler end
  end
  return all
end

return routes
