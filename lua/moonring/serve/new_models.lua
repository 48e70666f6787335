--- Makes trained models: new ones, and those that continue from saved weights.
local errors = require "moonring.base.errors"
local fields = require "moonring.serve.fields"
local lora_targets = require "moonring.serve.lora_targets"
local machine = require "moonring.base.machine"
local model = require "moonring.native.model"
local saved_folders = require "moonring.serve.saved_folders"
local trained_models = require "moonring.serve.trained"
local weights = require "moonring.serve.weights"

---@class moonring.serve.new_models
local new_models = {}

local ALPHA = 32        -- of an adapter: the scale is 32 / rank
local MOST_RANK = 4096
local LORA = { "rank", "seed", "train_attn", "train_mlp", "train_unembed" }

--- The id of the model that a request creates: SESSION:train:NUMBER. Errors: INVALID_ARGUMENT.
---@param request table
---@return string
function new_models.id(request)
  local session = fields.get(request, "session_id", "string")
  local number = fields.get(request, "model_seq_id", "integer")
  if number < 0 or not session:find "^[%w_-]+$" then
    errors.fail("session_id and model_seq_id: expected letters, digits and '-', and a number from ",
      "0; got '", session, "' and ", number)
  end
  return ("%s:train:%d"):format(session, number)
end

-- Refuses another optimizer than AdamW.
local function check_optimizer(request)
  local wanted = fields.value(request.optimizer_config)
  local kind = type(wanted) == "table" and fields.value(wanted.type)
  if wanted == nil or kind == nil or kind == "adamw" or kind == "adam" then return end
  errors.raise("UNIMPLEMENTED", "optimizer_config: the optimizer '", tostring(kind),
    "' is not offered; expected adamw")
end

local function metadata(request)
  local given = fields.get(request, "user_metadata", "table", {})
  return next(given) ~= nil and given or nil
end

--- Reads what a request of create_model asks for. Errors: INVALID_ARGUMENT, UNIMPLEMENTED.
---@param request table
---@param seed integer for a request without one
---@return moonring.serve.Recipe
function new_models.recipe(request, seed)
  check_optimizer(request)
  local lora = fields.get(request, "lora_config", "table", {})
  fields.only(lora, LORA, "lora_config")
  local rank = fields.get(lora, "rank", "integer", 32, "lora_config")
  if rank < 0 or rank > MOST_RANK then
    errors.fail("lora_config: rank: expected 1 to ", MOST_RANK, " (the rank of an adapter), or 0 ",
      "(all weights are trained); got ", rank)
  end
  local recipe = { base_model = fields.get(request, "base_model", "string"), rank = rank,
    seed = math.abs(fields.get(lora, "seed", "integer", seed, "lora_config")),
    user_metadata = metadata(request) }
  for i = 3, #LORA do
    recipe[LORA[i]] = fields.get(lora, LORA[i], "boolean", true, "lora_config")
  end
  return recipe
end

-- Refuses a further model of all weights if this machine has no room for its weights, gradients and
-- moments. Collective over all ranks.
local function check_room(service, base)
  local numbers = 0
  for _, part in ipairs(base.checkpoint:parts()) do numbers = numbers + part.parameters end
  local each = (base.config.fp64 and 8 or base.config.pure_bf16 and 2 or 4)
    + (base.config.fp64 and 24 or 12)
  local ok, gpu = pcall(model.gpu_memory)
  local free = ok and gpu.free or machine.memory_of_rank("cpu", machine.local_ranks() or 1)
  local need = numbers * each
  local short = service.mesh:max(free and need > free and 1 or 0) == 1
  if not short then return end
  errors.raise("FAILED_PRECONDITION", "rank 0 (all weights): a further model needs ",
    machine.show(need), " for weights, gradients and moments, and ", machine.show(free or 0),
    " are free; train an adapter (rank 1 or more), or end a session that is not needed any more")
end

local function new_weights(service, base, recipe)
  if recipe.rank == 0 then
    check_room(service, base)
    return base:whole()
  end
  local targets, note = lora_targets.of(base.checkpoint, recipe)
  if note then service:note(note) end
  return model.adapt(base.model, { rank = recipe.rank, alpha = ALPHA, dropout = 0,
    target = targets, seed = recipe.seed })
end

--- Makes a new model. Collective over all ranks. Errors: NOT_FOUND for an unknown base model;
--- FAILED_PRECONDITION if memory does not suffice for all weights.
---@param service moonring.Service
---@param id string
---@param recipe moonring.serve.Recipe
---@return moonring.serve.Trained
function new_models.new(service, id, recipe)
  local base = service.bases:open(recipe.base_model)
  if not base:trainable() then
    errors.raise("FAILED_PRECONDITION", "base_model: ", recipe.base_model, " is a quantized model ",
      "with an adapter, over which no other is trained; start the service without the adapter")
  end
  return trained_models.new(service, id, base, recipe, new_weights(service, base, recipe))
end

-- Restores the optimizer's state from a folder.
local function restore_optimizer(trained, folder, state, text)
  local moments = saved_folders.moments(folder)
  if not moments then
    errors.raise("FAILED_PRECONDITION", "path: ", text, " has no optimizer's state: it was saved ",
      "to sample from; expected weights of save_weights, or optimizer: false")
  end
  trained:load_moments(moments, state.steps)
end

--- Makes a model that continues from saved weights; its rank is theirs. Collective over all ranks.
--- Errors: those of weights.find; FAILED_PRECONDITION if the optimizer's state is wanted and was
--- not saved.
---@param service moonring.Service
---@param id string
---@param text string tinker://
---@param optimizer boolean whether the optimizer's state is restored
---@param request table
---@return moonring.serve.Trained
function new_models.from_path(service, id, text, optimizer, request)
  check_optimizer(request)
  local state, folder = weights.find(service, text)
  local base = saved_folders.base(service, state)
  local wanted = fields.value(request.base_model)
  if wanted and service.bases:open(wanted) ~= base then
    errors.fail("base_model: ", tostring(wanted), ", but ", text, " was trained from ",
      state.recipe.base_model)
  end
  if state.recipe.rank == 0 then check_room(service, base) end
  local recipe = {}
  for name, value in pairs(state.recipe) do recipe[name] = value end
  recipe.user_metadata = metadata(request) or state.recipe.user_metadata
  local trained = trained_models.new(service, id, base, recipe,
    saved_folders.load(folder, state, base, true))
  if optimizer then restore_optimizer(trained, folder, state, text) end
  return trained
end

--- Replaces the weights of a model by saved ones. Gradients are discarded. Collective over all
--- ranks. Errors: as `from_path`; INVALID_ARGUMENT if they are of another base model or rank.
---@param service moonring.Service
---@param trained moonring.serve.Trained
---@param text string tinker://
---@param optimizer boolean
function new_models.load_into(service, trained, text, optimizer)
  local state, folder = weights.find(service, text)
  local base, own, other = saved_folders.base(service, state), trained.recipe, state.recipe
  if base ~= trained.base then
    errors.fail("path: ", text, " was trained from ", other.base_model, ", this model from ",
      own.base_model)
  end
  for _, name in ipairs { "rank", "train_attn", "train_mlp", "train_unembed" } do
    if other[name] ~= own[name] and (name == "rank" or own.rank > 0) then
      errors.fail("path: ", text, " has ", name, " ", tostring(other[name]), ", this model ",
        tostring(own[name]), "; load_weights without model_id makes a new model from it")
    end
  end
  if optimizer and not saved_folders.moments(folder) then
    restore_optimizer(trained, folder, state, text) -- raises
  end
  trained:replace(saved_folders.load(folder, state, base, true))
  if optimizer then restore_optimizer(trained, folder, state, text) end
end

return new_models
