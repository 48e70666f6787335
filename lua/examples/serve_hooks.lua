--- A custom service around the core of `moonring serve`: every optimizer step passes a hook,
-- which bounds the learning rate and writes a line about the step; sampling passes unchanged.
--   moonring lua/examples/serve_hooks.lua MODEL [key=value...]
-- A handler's effect must depend only on its job and on earlier jobs, and be the same on every
-- rank: the journal is replayed after a crash, and every rank runs the same jobs.
local moonring = require "moonring"

local MOST = 1e-3 -- highest learning rate

local service = moonring.serve.open(moonring.serve.settings(arg))

local step = service.routes.optim_step
function service.routes.optim_step(own, job, request)
  local asked = request.adam_params.learning_rate
  request.adam_params.learning_rate = math.min(asked, MOST)
  local result = step(own, job, request)
  result.metrics["learning_rate:mean"] = request.adam_params.learning_rate
  own:note(("%s, seq_id %d: learning rate %g, asked for %g"):format(job.model, job.seq,
    request.adam_params.learning_rate, asked))
  return result
end

service:announce()
for jobs in service:jobs() do service:run(jobs) end
service:close()
