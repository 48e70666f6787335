--- Rewards from a model that stage rm has trained. Its value head scores prompt and completion at
-- the last token, as in training. It receives the ids that the policy generated, so it must have
-- the policy's tokenizer. It runs on this rank alone, without gradients, on packed rows.
local attention = require "moonring.native.attention"
local autograd = require "moonring.native.autograd"
local comm = require "moonring.native.comm"
local data = require "moonring.data"
local errors = require "moonring.base.errors"
local hub = require "moonring.hub"
local model = require "moonring.model"
local objectives = require "moonring.native.objectives"
local row_words = require "moonring.rewards.row_words"
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"

---@class moonring.reward_model
local reward_model = {}

-- Opens the checkpoint. If the folder contains an adapter, opens its base model, and also returns
-- the adapter.
local function open_checkpoint(given)
  local path = model.locate(given)
  local is_adapter = system.exists(path .. "/adapter_config.json")
    and not system.exists(path .. "/config.json")
  if not is_adapter then return model.open(path) end
  return model.open(model.base_of_adapter(path)), { path }
end

-- Refuses a tokenizer that differs from the policy's, because ids would represent other tokens.
local function check_tokenizer(where, checkpoint, policy)
  if not policy then return end
  local ok, own = pcall(data.tokenizer, checkpoint)
  if not ok then errors.prefix(own, where, ": model: its tokenizer: ") end
  for id = 0, math.max(own:end_id(), policy:end_id()) - 1 do
    local a, b = policy:token_of(id), own:token_of(id)
    if a ~= b then
      errors.fail(where, ": model: expected a reward model with the policy's tokenizer; id ", id,
        " is '", a, "' there and '", b, "' here")
    end
  end
end

-- Concatenates the ids of a row: prompt and completion.
local function document_of(scorer, batch, i, vocab_size)
  local ids = {}
  for _, name in ipairs { "prompt_ids", "completion_ids" } do
    local list = (batch[name] or {})[i]
    if not list then row_words.fail(scorer, batch, i, "expected ", name, ", got nothing") end
    for _, id in ipairs(list) do
      if id >= vocab_size then
        row_words.fail(scorer, batch, i, name, " has id ", id, ", and the reward model ",
          vocab_size, " ids")
      end
      ids[#ids + 1] = id
    end
  end
  if #ids == 0 then row_words.fail(scorer, batch, i, "expected ids, got none") end
  return ids
end

-- Groups rows into lists of at most `most` tokens each; a longer row is alone.
local function packs(documents, most)
  local list, tokens = {}, math.huge
  for i, ids in ipairs(documents) do
    if tokens + #ids > most then list[#list + 1], tokens = {}, 0 end
    table.insert(list[#list], i)
    tokens = tokens + #ids
  end
  return list
end

--- Loads the reward model, for the reward `model`.
---@param spec moonring.RewardSpec
---@param context table options from rewards.open
---@return moonring.Scorer[]
function reward_model.open(spec, context)
  local path = context.path(spec.path)
  if hub.name_of(spec.path) and not system.exists(path) then path = spec.path end
  local scorer = { name = spec.name or "model", is_named = spec.name ~= nil, place = path }
  local ok, checkpoint, adapters = pcall(open_checkpoint, path)
  if not ok then errors.prefix(checkpoint, spec.where, ": model: ") end
  check_tokenizer(spec.where, checkpoint, context.tokenizer)
  local vocab_size = checkpoint:vocab_size()
  local scoring = model.load(checkpoint, { adapters = adapters, frozen = true,
    recompute = "none", precision = context.precision, device = context.device })
  local head = scoring:value_head()
  if not head:found() then
    scoring:close()
    errors.fail(spec.where, ": model: ", path, " has no value_head.safetensors; expected a model ",
      "that stage rm has trained")
  end
  local mesh = comm.mesh { alone = true, device = context.device }
  local plans = attention.create { mesh = mesh, device = context.device }

  local function score_documents(documents)
    return tensor.scope(function()
      local ids, positions, _, plan, layout = plans:cut(comm.sequence { documents = documents })
      local hidden = scoring:forward(ids, positions, plan)
      return objectives.document_scores(hidden, head:weight(), head:bias(), layout, mesh):tolist()
    end)
  end

  function scorer.score(batch, count)
    local documents, values = {}, {}
    for i = 1, count do documents[i] = document_of(scorer, batch, i, vocab_size) end
    for _, rows in ipairs(packs(documents, context.micro_batch_tokens)) do
      local some = {}
      for k, i in ipairs(rows) do some[k] = documents[i] end
      local scores = autograd.no_grad(function() return score_documents(some) end)
      for k, i in ipairs(rows) do values[i] = scores[k] end
    end
    return values
  end
  function scorer.close()
    for _, each in ipairs { plans, mesh, head, scoring } do each:close() end
  end
  return { scorer }
end

return reward_model
