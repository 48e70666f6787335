--- A model that a client trains: an adapter over a base model, or all weights of one; with its
-- gradients, its optimizer, and what the client said of it.
local autograd = require "moonring.native.autograd"
local errors = require "moonring.base.errors"
local model = require "moonring.native.model"
local passes = require "moonring.serve.passes"
local tensor = require "moonring.native.tensor"
local trainer = require "moonring.native.trainer"

---@class moonring.serve.trained
local trained = {}

--- What was asked for when the model was created. Saved weights have it too.
---@class moonring.serve.Recipe
---@field base_model string a name of the base model
---@field rank integer of the adapter; 0: all weights are trained
---@field seed integer of the adapter's initial weights
---@field train_attn boolean
---@field train_mlp boolean
---@field train_unembed boolean
---@field user_metadata? table<string, string>

---@class moonring.serve.Trained
---@field id string model_id
---@field service moonring.Service
---@field base moonring.serve.Base
---@field recipe moonring.serve.Recipe
---@field model moonring.Model
---@field states moonring.States weights, gradients and their sum over ranks
---@field optimizer moonring.Optimizer
---@field steps integer steps of the optimizer so far
---@field seconds number computed since the last state on disk
---@field last_seconds number that the last state took to be saved
local Trained = {}
Trained.__index = Trained

-- Makes the optimizer, without moments, and the states of the model's weights.
local function fit_optimizer(self)
  for _, old in ipairs { self.optimizer or false, self.states or false } do
    if old then old:close() end
  end
  self.parameters = self.model:parameters()
  self.states = self.service.zero:states(self.parameters)
  self.optimizer = trainer.adamw(self.states:parameters(), { zero = self.service.zero,
    decay_all = true })
end

--- Makes a trained model of a loaded one. Collective over all ranks.
---@param service moonring.Service
---@param id string
---@param base moonring.serve.Base
---@param recipe moonring.serve.Recipe
---@param loaded moonring.Model
---@return moonring.serve.Trained
function trained.new(service, id, base, recipe, loaded)
  service.zero = service.zero or trainer.zero { mesh = service.mesh }
  local self = setmetatable({ id = id, service = service, base = base, recipe = recipe,
    model = loaded, steps = 0, seconds = 0, last_seconds = 0 }, Trained)
  fit_optimizer(self)
  return self
end

--- Replaces the weights, and begins without moments and gradients.
---@param loaded moonring.Model
function Trained:replace(loaded)
  self.model, self.steps = loaded, 0
  fit_optimizer(self)
end

--- Computes log-probs and, unless request.forward_only, adds gradients (passes.lua). Collective
--- over all ranks.
---@param request table of serve.read_forward_backward
---@return moonring.Tensor[] log_probs of each datum, in fp64
---@return table<string, number> metrics
function Trained:pass(request)
  return passes.run(self.service, self.model, request, self.base.checkpoint:vocab_size())
end

-- The norm of the summed gradient. If it is not finite, the gradients are discarded: the sum of the
-- ranks' finite gradients overflowed.
local function norm_of(self)
  local ok, norm = pcall(self.states.norm, self.states)
  if ok then return norm end
  self.states:clear_gradients()
  if not errors.is(norm, "ABORTED") then error(norm, 0) end
  errors.raise("INTERNAL", errors.words(norm), ". The weights are unchanged, and the gradients ",
    "are discarded")
end

--- Makes a step of AdamW with the gradients of all calls since the last one, and clears them. A
--- parameter without a gradient is updated as with a gradient of 0: its moments and weight decay.
--- Collective over all ranks.
---@param params moonring.serve.AdamParams
---@return table<string, number> metrics
function Trained:step(params)
  local norm = tensor.scope(autograd.no_grad, function()
    self.states:sum_gradients()
    local before = norm_of(self)
    if params.grad_clip_norm > 0 then
      self.states:clip { norm = before, max_norm = params.grad_clip_norm }
    end
    self.optimizer:step(params.learning_rate, { beta1 = params.beta1, beta2 = params.beta2,
      epsilon = params.eps, weight_decay = params.weight_decay })
    self.states:publish()
    self.states:clear_gradients()
    return before
  end)
  self.steps = self.steps + 1
  return { ["grad_norm:mean"] = norm, ["learning_rate:mean"] = params.learning_rate,
    ["step:max"] = self.steps }
end

--- The tensors of the optimizer's state: moments and step counts, by name. They are those in use,
--- not copies. Collective over all ranks.
---@return table<string, moonring.Tensor>
function Trained:moments()
  local tensors = {}
  for name, each in pairs(self.states:save(self.optimizer)) do
    if name:sub(1, 7) ~= "weight/" then tensors[name] = each end
  end
  return tensors
end

--- Restores the optimizer's state. Collective over all ranks.
---@param tensors table<string, moonring.Tensor> as `moments` returns
---@param steps integer
function Trained:load_moments(tensors, steps)
  local all = self.states:save(self.optimizer)
  for name, each in pairs(tensors) do all[name] = each end
  self.states:load(self.optimizer, { all })
  self.states:publish()
  self.steps = steps
end

--- The contents of state.json, which describe the saved weights.
---@param seq integer the last request that they contain
---@return moonring.serve.SavedState
function Trained:saved_state(seq)
  return { model_id = self.id, seq = seq, recipe = self.recipe, base_name = self.base.name,
    steps = self.steps }
end

--- A copy of the weights as they are now, over the same base.
---@return moonring.Model
function Trained:copy() return model.copy(self.model) end

--- Frees the model.
function Trained:close()
  self.optimizer:close()
  self.states:close()
  self.model:close()
end

return trained
