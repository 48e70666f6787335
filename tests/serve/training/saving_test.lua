--- Saved weights of moonring.serve: training continues from them with the same bits. Run twice in
-- one folder: "first", then "second", which stands for the process after a restart.
-- saving_test.lua FIXTURES MODEL FOLDER first|second
package.path = arg[1] .. "/?.lua;" .. package.path
local moonring = require "moonring"
local training_service = require "training_service"
local FOLDER, PHASE = arg[3], arg[4]
local same, weights_of = training_service.same, training_service.weights
local refused = training_service.refused

local service = training_service.open { "model_name_or_path=" .. arg[2], "output_dir=" .. FOLDER,
  unpack(arg, 5) }

local function weights(id) return weights_of(service.models[id].model) end

local function load(path, optimizer, number)
  return service:run("load_weights", { session_id = "S", model_seq_id = number, path = path,
    optimizer = optimizer }).model_id
end

-- Saved after two steps, loaded as a model of its own, and trained further.
local function continues(number, rank)
  local id = service:create(number, rank)
  service:train(id, 1, 2)
  local path = service:run("save_weights", { model_id = id, seq_id = 5, path = "two" }).path
  assert(path == "tinker://" .. id .. "/weights/two", path)
  local before = weights(id)
  service:train(id, 3, 4)
  local after = weights(id)

  local same_id = load(path, true, number + 10)
  assert(same(weights(same_id), before), "loaded weights differ")
  assert(service.models[same_id].recipe.rank == rank)
  service:train(same_id, 3, 4)
  assert(same(weights(same_id), after), "the continuation differs")

  local fresh_id = load(path, false, number + 20)
  assert(same(weights(fresh_id), before), "weights loaded without optimizer differ")
  service:train(fresh_id, 3, 4)
  assert(not same(weights(fresh_id), after), "moments were restored though optimizer was false")
  assert(service.models[fresh_id].steps == 2)

  service:backward(id, 9) -- gradients that wait are no part of it
  service:run("load_weights", { model_id = id, seq_id = 20, path = path, optimizer = true })
  assert(next(training_service.gradients(service.models[id].model)) == nil)
  service:train(id, 3, 4)
  assert(same(weights(id), after), "the continuation after load_state differs")
  assert(service.mesh:rank() > 0 or service.saved[id] == 20, "no state after load_weights")
  return path
end

local function alone_and_together()
  for number, rank in ipairs { 4, 4, 0 } do service:create(40 + number, rank, { seed = number }) end
  for number, rank in ipairs { 4, 4, 0 } do service:create(50 + number, rank, { seed = number }) end
  for number = 1, 3 do service:train("S:train:" .. 40 + number, number, number + 2) end
  for k = 0, 2 do
    for number = 1, 3 do service:backward("S:train:" .. 50 + number, number + k) end
    for number = 1, 3 do
      service:run("optim_step", { model_id = "S:train:" .. 50 + number, seq_id = 2 * k,
        adam_params = { learning_rate = 1e-3 * (number + k), weight_decay = 0.1 } })
    end
  end
  for number = 1, 3 do
    assert(same(weights("S:train:" .. 40 + number), weights("S:train:" .. 50 + number)),
      "a model's weights depend on others that are trained beside it")
  end
end

local function names(path)
  local id = "S:train:1"
  local function save(name, more, job)
    local request = { model_id = id, seq_id = 30, path = name }
    for key, value in pairs(more or {}) do request[key] = value end
    return service:run("save_weights", request, job)
  end
  refused("ALREADY_EXISTS", "overwrite: true", save, "two")
  save("two", { overwrite = true })
  save("two") -- the same request again, as after a crash
  for _, name in ipairs { "../x", "a/b", "", ".hidden", "a\0b", ("x"):rep(129), "ü" } do
    refused("INVALID_ARGUMENT", "expected a name of letters", save, name)
  end
  for _, bad in ipairs { "tinker://../weights/two", "tinker://S:train:1/weights/../../x",
    "tinker://S:train:1/states/two", "tinker:///etc/passwd", "tinker://S:train:1/weights/..",
    "tinker://S:train:1/weights/two/x" } do
    refused("INVALID_ARGUMENT", "path: expected", service.weights, service, bad)
  end
  refused("NOT_FOUND", "no model", service.weights, service, "S:train:1/weights/two")
  refused("NOT_FOUND", "did you mean 'two'", load, "tinker://S:train:1/weights/tow", true, 99)
  local sampled = service:run("save_weights_for_sampler", { model_id = id, seq_id = 31,
    path = "s" }).path
  refused("FAILED_PRECONDITION", "no optimizer's state", load, sampled, true, 98)
  assert(same(weights_of(service:weights(sampled).model), weights(id)))
  assert(service.mesh:rank() > 0 or service.facts["checkpoint " .. path])
  service:run("delete_checkpoint", { tinker_path = path })
  assert(not service.facts["checkpoint " .. path])
  refused("NOT_FOUND", "no saved weights", load, path, true, 97)
end

if PHASE == "first" then
  local path = continues(1, 4)
  continues(2, 0)
  alone_and_together()
  names(path)
  -- A state is saved when it is due; the next process continues from it.
  for number, rank in pairs { [61] = 4, [62] = 0 } do
    local id = service:create(number, rank)
    service:train(id, 1, 2)
    service.models[id].seconds = 1e9
    service:train(id, 3, 3)
    assert(service.saved[id] == 6 or service.mesh:rank() > 0)
    service:train(id, 4, 5)
    if service.mesh:rank() == 0 then
      moonring.safetensors.write(FOLDER .. "/after" .. number .. ".safetensors", weights(id))
    end
  end
  service:run("finish", { session_id = "other" })
  return service.mesh:rank() == 0 and print "first ok"
end

for _, number in ipairs { 61, 62 } do
  local id = "S:train:" .. number
  assert(service.restored[id] == 6, "no state was found")
  assert(not service.models[id], "loaded before it was used")
  assert(service.mesh:rank() > 0 or service.facts["model " .. id].model_name
    and service.facts["run " .. id])
  service:run("optim_step", { model_id = id, seq_id = 7, adam_params = { learning_rate = 0 } })
  service.models[id]:close()
  service.models[id] = nil
  service.dormant[id] = FOLDER .. "/states/" .. id .. "/6" -- without the step of above
  service:run("forward", { model_id = id, data = training_service.datums(1),
    loss_fn = "cross_entropy" })
  service:train(id, 4, 5)
  local after = moonring.safetensors.read(FOLDER .. "/after" .. number .. ".safetensors")
  assert(same(weights(id), after), "training after a restart differs")
end
local fresh = "S:train:21" -- its state is that of its creation, without moments
assert(service.restored[fresh] == 0)
service:run("optim_step", { model_id = fresh, seq_id = 1, adam_params = {} })
local from_before = load("tinker://S:train:1/sampler_weights/s", false, 70)
assert(service.models[from_before].recipe.rank == 4)
service:run("finish", { session_id = "S" })
assert(next(service.models) == nil and #moonring.system.list(FOLDER .. "/states") == 0)
if service.mesh:rank() == 0 then print "second ok" end
