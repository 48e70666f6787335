--- Snapshots of moonring.serve: later steps do not change them, in memory and on disk; the oldest
-- are dropped; a restart finds those on disk.
-- snapshots_test.lua FIXTURES MODEL FOLDER first|second
package.path = arg[1] .. "/?.lua;" .. package.path
local moonring = require "moonring"
local training_service = require "training_service"
local FOLDER, PHASE = arg[3], arg[4]
local same, weights_of = training_service.same, training_service.weights
local service = training_service.open { "model_name_or_path=" .. arg[2], "output_dir=" .. FOLDER,
  unpack(arg, 5) }

local function take(id, number)
  return service:run("save_weights_for_sampler", { model_id = id, seq_id = 100 + number,
    sampling_session_seq_id = number }).sampling_session_id
end

local function held()
  local count = 0
  for _, each in pairs(service.samplers) do count = count + (each.model and 1 or 0) end
  return count
end

local function file(id) return FOLDER .. "/" .. id:gsub(":", "_") .. ".safetensors" end

if PHASE == "second" then
  assert(service.restored["S:train:1"] == 2)
  for number, alive in pairs { [100] = true, [165] = true, [101] = false } do
    local name = "S:sample:" .. number
    if alive then
      local found = weights_of(service:weights(name).model)
      assert(same(found, moonring.safetensors.read(file(name))), name)
    else
      training_service.refused("NOT_FOUND", "no model", service.weights, service, name)
    end
  end
  service:run("finish", { session_id = "S" })
  assert(#moonring.system.list(FOLDER .. "/snapshots") == 0)
  return service.mesh:rank() == 0 and print "second ok"
end

-- All weights: one is in memory, and they are the trained ones of their time.
local whole, wanted = service:create(0, 0), {}
for k = 1, 3 do
  service:train(whole, k, k)
  wanted[k] = weights_of(service.models[whole].model)
  assert(take(whole, k) == "S:sample:" .. k)
end
assert(held() == 1)
for k = 1, 3 do
  assert(same(weights_of(service:weights("S:sample:" .. k).model), wanted[k]), "snapshot " .. k)
end
assert(service:weights "S:sample:3".model:parameters():list()[1]:trainable() == false)

-- Adapters: four in memory, 64 at all; the first is used all the time, as a reference is.
local id = service:create(1, 4)
for k = 100, 165 do
  if k < 103 or k > 163 then
    service:train(id, k % 7 + 1, k % 7 + 1)
  end
  local name = take(id, k)
  local now = weights_of(service.models[id].model)
  if k == 100 or k == 165 then
    if service.mesh:rank() == 0 then moonring.safetensors.write(file(name), now) end
    wanted[k] = now
  end
  assert(same(weights_of(service:weights "S:sample:100".model), wanted[100]), "the first, at " .. k)
end
assert(held() == 5, "in memory: " .. held())
training_service.refused("NOT_FOUND", "were dropped, as only the 64 snapshots", service.weights,
  service, "S:sample:101")
assert(same(weights_of(service:weights "S:sample:165".model), wanted[165]))
take(id, 165) -- again, as after a restart
service.models[id].seconds = 1e9
service:train(id, 1, 1) -- saves a state, and the snapshots that were only in memory
assert(same(weights_of(service:weights "S:sample:165".model), wanted[165]))
if service.mesh:rank() == 0 then print "first ok" end
