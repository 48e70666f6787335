--- Steps of the optimizer in fp64 against AdamW's equation with numbers that change at each step,
-- the decay of all weights, clipping, and steps without gradients.
package.path = arg[1] .. "/?.lua;" .. package.path
local training_service = require "training_service"

local service = training_service.open { "model_name_or_path=" .. arg[2], "output_dir=" .. arg[3],
  "fp64=true" }
local STEPS = {
  { learning_rate = 1e-3 },
  { learning_rate = 2e-3, beta1 = 0.8, beta2 = 0.9, eps = 1e-8, weight_decay = 0.1 },
  { learning_rate = 1e-3, grad_clip_norm = 0.01, weight_decay = 0.2 },
  { learning_rate = 5e-4, beta1 = 0, idle = true },
  { learning_rate = 3e-3, grad_clip_norm = 1e9 },
}

-- The equation: p -= lr (m^ / (sqrt(v^) + eps) + wd p).
local function stepped(p, m, v, g, k, c)
  m = m * c.beta1 + g * (1 - c.beta1)
  v = v * c.beta2 + g * g * (1 - c.beta2)
  local mean, square = m / (1 - c.beta1 ^ k), v / (1 - c.beta2 ^ k)
  return p - (mean / (square:sqrt() + c.eps) + p * c.weight_decay) * c.learning_rate, m, v
end

for number, rank in ipairs { 4, 0 } do
  local id = service:create(number, rank)
  local model = service.models[id].model
  local p, m, v = training_service.weights(model), {}, {}
  for name, each in pairs(p) do m[name], v[name] = each:zeros_like(), each:zeros_like() end
  for k, given in ipairs(STEPS) do
    if not given.idle then
      service:backward(id, k)
      service:backward(id, 10 + k)
    end
    local g, norm = training_service.gradients(model), 0
    for _, each in pairs(g) do norm = norm + (each * each):sum():item() end
    norm = math.sqrt(norm)
    local c = { beta1 = 0.9, beta2 = 0.95, eps = 1e-12, weight_decay = 0, grad_clip_norm = 0 }
    local sent = {}
    for name, value in pairs(given) do
      c[name] = value
      if name ~= "idle" then sent[name] = value end
    end
    local made = service:run("optim_step", { model_id = id, seq_id = k, adam_params = sent })
    assert(math.abs(made.metrics["grad_norm:mean"] - norm) <= 1e-12 * (1 + norm))
    assert(made.metrics["step:max"] == k)
    local factor = c.grad_clip_norm > 0 and math.min(1, c.grad_clip_norm / (norm + 1e-6)) or 1
    for name, each in pairs(training_service.weights(model)) do
      local own = (g[name] or each:zeros_like()) * factor
      p[name], m[name], v[name] = stepped(p[name], m[name], v[name], own, k, c)
      local apart = (each - p[name]):abs():max():item()
      assert(apart <= 1e-6 * c.learning_rate, ("%s: step %d: apart %g"):format(name, k, apart))
      p[name] = each -- errors of a quotient of tiny moments do not add up
    end
    assert(next(training_service.gradients(model)) == nil, "gradients are left after the step")
  end
end
print "ok"
