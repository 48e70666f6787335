--- A service for tests of training: real models, ranks and folders, and no door. Requests are the
-- tables that handlers receive.
local attention = require "moonring.native.attention"
local bases = require "moonring.serve.bases"
local comm = require "moonring.native.comm"
local config = require "moonring.config"
local errors = require "moonring.base.errors"
local routes = require("moonring.serve.routes_training").handlers
local states = require "moonring.serve.states"
local tensor = require "moonring.native.tensor"
local weights = require "moonring.serve.weights"

local training_service = {}
local Service = {}
Service.__index = Service

--- Opens a service. `words`: keys and values, as on the command line.
function training_service.open(words)
  local c = config.load(nil, words)
  c.further_models, c.notes = {}, c.notes or {}
  local self = setmetatable({ config = c, folder = c.output_dir, models = {}, samplers = {},
    facts = {}, saved = {} }, Service)
  self.mesh = comm.mesh { sp = c.sequence_parallel_size }
  self.attention = attention.create { mesh = self.mesh, strategy = c.sequence_parallel_mode }
  self.bases = bases.new(c)
  local service = self
  self.door = self.mesh:rank() == 0 and { saved = function(_, id, seq) service.saved[id] = seq end }
    or nil
  self.restored = states.restore(self)
  weights.publish_all(self)
  return self
end

function Service:publish(kind, id, fact) self.facts[kind .. " " .. id] = fact end
function Service:withdraw(kind, id) self.facts[kind .. " " .. id] = nil end
function Service:weights(name) return weights.of(self, name) end
function Service:note() end

--- Runs a job, as the loop of a service does.
function Service:run(route, request, job)
  local all = { route = route, seed = 7, replay = false, seq = request.seq_id,
    model = request.model_id, type = "application/x-protobuf", body = "" }
  for name, value in pairs(job or {}) do all[name] = value end
  local result = routes[route](self, all, request)
  states.save_due(self)
  return result
end

--- A datum of lists of numbers; fields beside tokens and target_tokens are floats.
function training_service.datum(given)
  local inputs = {}
  for name, values in pairs(given) do
    local dtype = name == "target_tokens" and "int64" or "fp32"
    if name ~= "tokens" then inputs[name] = tensor.tensor(values, dtype) end
  end
  return { tokens = tensor.tensor(given.tokens, "int64"), inputs = inputs }
end

--- Makes a model S:train:NUMBER.
function Service:create(number, rank, more)
  local lora = { rank = rank, seed = 3 }
  for name, value in pairs(more or {}) do lora[name] = value end
  return self:run("create_model", { session_id = "S", model_seq_id = number,
    base_model = self.bases:names()[1], lora_config = lora }).model_id
end

--- Some datums, other ones for each `seed`.
function training_service.datums(seed)
  local list = {}
  for d = 1, 3 do
    local given = { tokens = {}, target_tokens = {}, weights = {} }
    for i = 1, 4 * d do
      given.tokens[i], given.target_tokens[i] = (seed * 7 + d * 3 + i) % 600, (seed + i * d) % 600
      given.weights[i] = (i % 3) / 2
    end
    list[d] = training_service.datum(given)
  end
  return list
end

--- One call of forward_backward.
function Service:backward(id, seed)
  return self.models[id]:pass { data = training_service.datums(seed), loss_fn = "cross_entropy" }
end

--- Steps of training with the datums of some seeds; a step's number is its seed.
function Service:train(id, first, last)
  for k = first, last do
    self:backward(id, k)
    self:run("optim_step", { model_id = id, seq_id = 2 * k,
      adam_params = { learning_rate = 1e-3 * k, weight_decay = 0.1 } })
  end
end

--- Copies of a model's weights by name.
function training_service.weights(model)
  local found = {}
  for _, each in ipairs(model:parameters():list()) do
    found[each:name()] = each:weight():clone()
  end
  return found
end

--- Copies of its gradients.
function training_service.gradients(model)
  local found = {}
  for _, each in ipairs(model:parameters():list()) do
    local gradient = each:gradient()
    found[each:name()] = gradient and gradient:clone() or nil
  end
  return found
end

--- Whether two tables of tensors have the same names and bits.
function training_service.same(a, b)
  for name, each in pairs(a) do
    if not b[name] or not each:equal(b[name]) then return false end
  end
  for name in pairs(b) do
    if not a[name] then return false end
  end
  return next(a) ~= nil
end

--- Calls f, and checks that it is refused with this code and words.
function training_service.refused(code, words, f, ...)
  local ok, why = pcall(f, ...)
  assert(not ok, "not refused, but expected: " .. words)
  local found = errors.code(why) == code and errors.words(why):find(words, 1, true)
  if not found then error(("expected %s: %s, got %s"):format(code, words, tostring(why)), 0) end
end

return training_service
