--- Handlers of the jobs that train and save. Each runs on all ranks. Its effect depends only on its
-- job and on earlier ones, so that replaying the journal gives the same weights.
local adam_params = require "moonring.serve.adam_params"
local errors = require "moonring.base.errors"
local facts = require "moonring.serve.facts"
local fields = require "moonring.serve.fields"
local native = require "moonring.native.serve"
local new_models = require "moonring.serve.new_models"
local snapshots = require "moonring.serve.snapshots"
local states = require "moonring.serve.states"
local system = require "moonring.native.system"
local weights = require "moonring.serve.weights"

---@class moonring.serve.routes_training
---@field handlers table<string, moonring.serve.Handler> by route
local routes_training = {}

local routes = {}

-- The model of a request.
local function model_of(service, request)
  return states.model(service, fields.value(request.model_id))
end

-- Runs f, and counts its seconds towards the model's next state.
local function timed(trained, f, ...)
  local began = system.clock()
  local a, b = f(...)
  trained.seconds = trained.seconds + system.clock() - began
  return a, b
end

-- Adds a new model to the service.
local function admit(service, trained)
  service.models[trained.id] = trained
  facts.model(service, trained)
end

-- Refuses to create a model whose id is taken.
local function check_new(service, id)
  if service.models[id] or service.dormant and service.dormant[id] then
    errors.raise("ALREADY_EXISTS", "model_seq_id: the model ", id, " is there already")
  end
end

function routes.create_model(service, job, request)
  local id = new_models.id(request)
  check_new(service, id)
  admit(service, new_models.new(service, id, new_models.recipe(request, job.seed)))
  return { model_id = id, type = "create_model" }
end

-- The result of a pass as JSON, for SDKs before 0.25, which send JSON.
local function as_json(log_probs, metrics)
  local outputs = {}
  for i, each in ipairs(log_probs) do
    outputs[i] = { logprobs = { data = each:flatten():tolist(), dtype = "float32",
      shape = each:shape() } }
  end
  return { loss_fn_output_type = "ArrayRecord", loss_fn_outputs = outputs, metrics = metrics }
end

local function pass(service, job, request)
  local trained = model_of(service, request)
  local log_probs, metrics = timed(trained, trained.pass, trained, request)
  if not service.door then return {} end
  local outputs = {}
  for i, each in ipairs(log_probs) do
    log_probs[i] = each:to "fp32"
    outputs[i] = { logprobs = log_probs[i] }
  end
  if (job.type or ""):find "json" then return as_json(log_probs, metrics) end
  return { body = native.write_forward_backward { metrics = metrics, outputs = outputs },
    type = "application/x-protobuf" }
end

routes.forward_backward = pass

function routes.forward(service, job, request)
  request.forward_only = true
  return pass(service, job, request)
end

function routes.optim_step(service, job, request)
  local trained = model_of(service, request)
  local metrics = timed(trained, trained.step, trained, adam_params.read(request))
  facts.run(service, trained.id, trained.recipe)
  states.want(service, trained, job.seq)
  return { metrics = metrics, type = "optim_step" }
end

-- Notes once that saved weights do not expire.
local function note_expiry(service, request)
  if fields.value(request.ttl_seconds) == nil or service.has_noted_expiry then return end
  service.has_noted_expiry = true
  service:note "ttl_seconds: no effect: saved weights stay until they are deleted"
end

local function save(service, job, request, kind)
  note_expiry(service, request)
  return weights.save(service, model_of(service, request), { kind = kind,
    name = fields.get(request, "path", "string"), moments = kind == "weights",
    overwrite = fields.get(request, "overwrite", "boolean", false),
    user_metadata = fields.value(request.user_metadata) }, job)
end

function routes.save_weights(service, job, request)
  return { path = save(service, job, request, "weights"), type = "save_weights" }
end

function routes.save_weights_external(service, job, request)
  return { path = save(service, job, request, "external_weights"), type = "save_weights_external" }
end

function routes.save_weights_for_sampler(service, job, request)
  if fields.value(request.path) ~= nil then
    return { path = save(service, job, request, "sampler_weights"),
      type = "save_weights_for_sampler" }
  end
  local trained = model_of(service, request)
  local number = fields.get(request, "sampling_session_seq_id", "integer")
  local id = ("%s:sample:%d"):format(trained.id:match "^[^:]+", number)
  snapshots.take(service, trained, id, job.seq)
  return { sampling_session_id = id, type = "save_weights_for_sampler" }
end

function routes.load_weights(service, job, request)
  local path = fields.get(request, "path", "string")
  local optimizer = fields.get(request, "optimizer", "boolean", false)
  local trained
  if fields.value(request.model_id) ~= nil then
    trained = model_of(service, request)
    new_models.load_into(service, trained, path, optimizer)
  else
    local id = new_models.id(request)
    check_new(service, id)
    trained = new_models.from_path(service, id, path, optimizer, request)
    admit(service, trained)
  end
  states.want(service, trained, job.seq or 0, true) -- saved weights may be deleted before a restart
  return { path = path, model_id = trained.id, type = "load_weights" }
end

function routes.finish(service, job, request)
  local session = fields.value(request.session_id) or job.session
  snapshots.finish(service, session)
  states.finish(service, session)
  return { type = "finish_session" }
end

function routes.delete_checkpoint(service, _, request)
  weights.delete(service, fields.get(request, "tinker_path", "string"))
  return { body = "", status = 204 }
end

routes_training.handlers = routes

return routes_training
