--- What clients may ask of models and saved weights: answered from these facts while the model
-- computes.
local saved_folders = require "moonring.serve.saved_folders"
local system = require "moonring.native.system"
local tinker_paths = require "moonring.serve.tinker_paths"

---@class moonring.serve.facts
local facts = {}

-- What the API calls the kinds of saved weights.
local TYPES = { weights = "training", sampler_weights = "sampler", external_weights = "external" }

-- Where a client finds the tokenizer: the folder's absolute path, or the model's name.
local function tokenizer_id(base)
  local path = base.checkpoint:path()
  return system.exists(path .. "/tokenizer.json") and system.absolute(path) or base.name
end

local function lora_facts(recipe)
  local is_lora = recipe.rank > 0
  return { base_model = recipe.base_model, is_lora = is_lora,
    lora_rank = is_lora and recipe.rank or system.null }
end

--- Publishes what get_info and training_runs say of a trained model.
---@param service moonring.Service
---@param trained moonring.serve.Trained
function facts.model(service, trained)
  local recipe, base = trained.recipe, trained.base
  local info = lora_facts(recipe)
  info.base_model, info.type, info.model_id = nil, "get_info", trained.id
  info.model_name = recipe.base_model
  info.model_data = { arch = base.checkpoint:facts().architecture, model_name = recipe.base_model,
    tokenizer_id = tokenizer_id(base) }
  service:publish("model", trained.id, info)
  facts.run(service, trained.id, recipe)
end

--- Publishes what training_runs says of a model, with the present time as that of its last request.
---@param service moonring.Service
---@param id string
---@param recipe moonring.serve.Recipe
function facts.run(service, id, recipe)
  local run = lora_facts(recipe)
  run.training_run_id, run.model_owner, run.corrupted = id, "local", false
  run.last_request_time = saved_folders.now()
  run.user_metadata = recipe.user_metadata or system.null
  service:publish("run", id, run)
end

--- Publishes what weights_info and the listings say of saved weights.
---@param service moonring.Service
---@param path moonring.serve.TinkerPath
---@param state moonring.serve.SavedState
---@param bytes integer
function facts.saved(service, path, state, bytes)
  local text, recipe = tinker_paths.text(path.model, path.kind, path.name), state.recipe
  local info = lora_facts(recipe)
  if recipe.rank > 0 then
    info.train_attn, info.train_mlp = recipe.train_attn, recipe.train_mlp
    info.train_unembed = recipe.train_unembed
  end
  service:publish("weights", text, info)
  service:publish("checkpoint", text, { checkpoint_id = path.kind .. "/" .. path.name,
    checkpoint_type = TYPES[path.kind], time = state.time, tinker_path = text, size_bytes = bytes,
    public = false, user_metadata = state.user_metadata or system.null })
end

--- Withdraws the facts of saved weights.
---@param service moonring.Service
---@param path moonring.serve.TinkerPath
function facts.removed(service, path)
  local text = tinker_paths.text(path.model, path.kind, path.name)
  service:withdraw("weights", text)
  service:withdraw("checkpoint", text)
end

--- Publishes what samplers/X says.
---@param service moonring.Service
---@param id string sampling_session_id
---@param recipe moonring.serve.Recipe
---@param path? string tinker:// path
function facts.sampler(service, id, recipe, path)
  service:publish("sampler", id, { sampler_id = id, base_model = recipe.base_model,
    model_path = path or system.null })
end

return facts
