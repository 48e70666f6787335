--- The sizes of a model where there is no checkpoint to ask, and its parameters by part.

---@class moonring.model_shape
local model_shape = {}

---@class moonring.ModelShape
---@field layers integer
---@field attending? integer of them, those of softmax attention; all where absent
---@field mlps? integer of them, those with an MLP or experts; all where absent
---@field gated? boolean whether these have a gate; true where absent
---@field delta? moonring.DeltaShape layers of the gated delta rule; absent: there are none
---@field convolution? moonring.ConvolutionShape layers of a short convolution alone, likewise
---@field hidden integer
---@field width integer features of the MLP that a token meets
---@field heads integer
---@field kv_heads integer
---@field head_dim integer
---@field value_dim? integer of a value head; head_dim where absent
---@field latents? integer numbers of a token from which q, k and v are made; absent: the stream
---@field turning? integer features of a head that rotary embedding turns; head_dim where absent
--- parameters of the maps that end in a layer's q, k and v, where latents are between
---@field entrance? integer
---@field vocab integer
--- how many times more rows a tile has than of a dense MLP; 1 where absent
---@field tile_factor? integer
---@field experts? integer of a mixture
---@field chosen? integer of them, for each token
---@field stacked? boolean whether a layer's lie in two tensors, whose gradients are made whole
---@field expert_layers? integer that have them
---@field expert_parameters? number of all experts of all layers
---@field softcap? number the bound that attention's scores approach; absent or 0: they have none
---@field tied? boolean whether the head is the embedding
---@field bias? boolean whether q, k and v have one
---@field embedding? integer parameters of it, as of the next two
---@field head? integer 0 where it is tied
---@field blocks? integer and the final norm

--- Numbers of a token's queries, keys and values.
---@param m moonring.ModelShape
---@return integer
function model_shape.rows(m)
  return m.heads * m.head_dim + m.kv_heads * (m.head_dim + (m.value_dim or m.head_dim))
end

--- Numbers that attention gives of a token.
---@param m moonring.ModelShape
---@return integer
function model_shape.given(m) return m.heads * (m.value_dim or m.head_dim) end

--- Parameters of the maps that end in a layer's q, k and v.
---@param m moonring.ModelShape
---@return integer
function model_shape.entrance(m) return m.entrance or m.hidden * model_shape.rows(m) end

--- Fills in the parameters of a model of Llama's shape, by part, and returns it.
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

return model_shape
