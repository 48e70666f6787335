--- The sizes of a model and its parameter counts, from a checkpoint, or computed for a model of
-- Llama's architecture.

---@class moonring.model_shape
local model_shape = {}

--- The sizes of a model, and its parameter counts.
---@class moonring.ModelShape
---@field layers integer
---@field attending? integer layers with softmax attention; default: all
---@field mlps? integer layers with an MLP or experts; default: all
---@field gated? boolean whether MLPs have a gate; default true
---@field delta? moonring.MixerWork layers with a recurrence (gated delta rule, state space)
---@field convolution? moonring.MixerWork layers of only a short convolution, if any
---@field hidden integer
---@field width integer features of the MLP that a token uses
---@field heads integer
---@field kv_heads integer
---@field head_dim integer
---@field value_dim? integer of a value head; default: head_dim
---@field latents? integer numbers per token that q, k and v are computed from (latent attention)
---@field turning? integer features of a head that are rotated; default: head_dim
--- `entrance`: parameters of the maps that compute a layer's q, k and v, with latent attention.
---@field entrance? integer
---@field vocab integer
--- `tile_factor`: how many times more rows a tile has than with a dense MLP; default 1.
---@field tile_factor? integer
---@field experts? integer of a mixture of experts
---@field chosen? integer experts per token
---@field stacked? boolean whether a layer's experts are in two tensors, with one gradient each
---@field expert_layers? integer layers with experts
---@field expert_parameters? number of all experts of all layers
---@field softcap? number the bound of attention's scores; absent or 0: none
---@field tied? boolean whether the head is the embedding
---@field bias? boolean whether q, k and v have one
---@field embedding? integer parameters of the embedding
---@field head? integer parameters of the head; 0 if it is tied
---@field blocks? integer parameters of the blocks and the final norm

--- The number of elements of one token's queries, keys and values in one layer.
---@param m moonring.ModelShape
---@return integer
function model_shape.rows(m)
  return m.heads * m.head_dim + m.kv_heads * (m.head_dim + (m.value_dim or m.head_dim))
end

--- The number of elements of attention's output for one token.
---@param m moonring.ModelShape
---@return integer
function model_shape.given(m) return m.heads * (m.value_dim or m.head_dim) end

--- The number of parameters of the maps that compute a layer's q, k and v.
---@param m moonring.ModelShape
---@return integer
function model_shape.entrance(m) return m.entrance or m.hidden * model_shape.rows(m) end

--- Sets the parameter counts of a model of Llama's architecture, and returns it.
---@param m moonring.ModelShape
---@return moonring.ModelShape
function model_shape.fill(m)
  local rows = model_shape.rows(m)
  local block = m.hidden * rows + model_shape.given(m) * m.hidden + (m.bias and rows
    or 0) + 3 * m.hidden * m.width + 2 * m.hidden
  m.embedding = m.vocab * m.hidden
  m.head, m.blocks = m.tied and 0 or m.embedding, m.layers * block + m.hidden
  return m
end

-- The sizes of a model's recurrences (gated delta rules, state spaces) and of its convolutions.
local function mixers(facts)
  local delta, convolution
  for _, mixer in ipairs(facts.mixers) do
    if mixer.work and mixer.work.value_heads > 0 then delta = mixer.work
    elseif mixer.work then convolution = mixer.work end
  end
  return delta, convolution
end

-- Sets the sizes of latent attention: value size, rotated features, latents, and the parameters of
-- the maps to queries, keys and values.
local function latents(m, facts)
  m.value_dim, m.turning = facts.attention_value_dim, facts.rotary_dim
  m.latents = facts.query_rank + facts.key_value_rank
  local queries, plain = m.heads * m.head_dim, m.head_dim - facts.rotary_dim
  m.entrance = (facts.query_rank > 0 and facts.query_rank * (m.hidden + queries)
    or m.hidden * queries) + m.hidden * (facts.key_value_rank + facts.rotary_dim)
    + facts.key_value_rank * m.heads * (plain + m.value_dim)
end

-- Sets the sizes of a mixture of experts; `width` becomes the number of features that a token uses.
local function experts(m, facts)
  m.width = facts.experts_chosen * facts.expert_intermediate_size + facts.shared_expert_size
  -- Each expert has as many rows per tile as a dense MLP would.
  m.tile_factor = math.max(1, math.floor(facts.experts / facts.experts_chosen))
  m.experts, m.chosen, m.stacked = facts.experts, facts.experts_chosen, facts.experts_stacked
  m.expert_layers, m.expert_parameters = facts.expert_layers, facts.expert_parameters
end

--- A model's sizes and parameter counts. Needs only its config.
---@param checkpoint moonring.Checkpoint
---@return moonring.ModelShape
function model_shape.of(checkpoint)
  local facts = checkpoint:facts()
  local m = { layers = facts.layers, attending = facts.attention_layers, mlps = facts.mlp_layers,
    gated = facts.gated_mlp, hidden = facts.hidden_size, heads = facts.heads,
    kv_heads = facts.kv_heads, head_dim = facts.head_dim, vocab = facts.vocab_size,
    tied = facts.tied, window = facts.window, softcap = facts.softcap,
    logit_softcap = facts.logit_softcap, windowed = facts.sliding_layers,
    width = facts.intermediate_size, tile_factor = 1, embedding = 0, head = 0, blocks = 0 }
  m.delta, m.convolution = mixers(facts)
  if facts.key_value_rank > 0 then latents(m, facts) end
  if facts.experts > 0 then experts(m, facts) end
  if facts.dense_beside_experts then m.width = m.width + facts.intermediate_size end
  for _, part in ipairs(checkpoint:parts()) do
    local own = (part.name == "embedding" or part.name == "head") and part.name or "blocks"
    m[own] = m[own] + part.parameters
  end
  return m
end

return model_shape
