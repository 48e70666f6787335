--- Predicts the bytes of activations that are kept from a forward to its backward: inputs of blocks
-- and the tensors that `recompute` keeps, a chunk of logits, and small per-token tensors.
-- memory.lua defines the symbols. `s` has bytes per element: s.a of the residual stream, s.e of
-- matrix products, s.w of trainable weights, s.g of gradients.
local coefficients = require "moonring.plan.coefficients"
local model_shape = require "moonring.plan.model_shape"

---@class moonring.activation_bytes
local activation_bytes = {}

-- The number of layers that keep their whole autograd graph, and the number of other layers that
-- keep attention's result.
local function spending(f)
  local whole = f.recompute == "none" and f.depth or math.min(f.whole_layers or 0, f.depth)
  return whole, f.recompute == "selective" and f.depth - whole
    or math.min(f.selective_layers or 0, f.depth - whole)
end

--- Bytes that all layers keep from forward to backward: inputs of blocks, attention's results with
--- selective recompute, and whole graphs. Also returns the bytes that remain in memory when the
--- last layer's backward begins, and the bytes that the first layer keeps.
---@param f moonring.MemoryFacts
---@param s { a: number, e: number, w: number, g: number }
---@param mixers { bytes: moonring.AttentionBytes, layers: integer }[] attention and others
---@param held table the result of state_bytes.held; the bytes of offloaded tensors are added to it
---@return number all
---@return number back
---@return number of_first
function activation_bytes.kept(f, s, mixers, held)
  local m, c, t = f.model, coefficients, f.tokens / f.sp
  local whole, selective = spending(f)
  local input = t * m.hidden * s.a
  -- An average over the layers: a layer with only a mixer or only an MLP has half of the tensors of
  -- the residual stream.
  local mlps, mixed = m.mlps or m.layers, 0
  for _, mixer in ipairs(mixers) do mixed = mixed + mixer.layers end
  local graph = t * (m.hidden * (c.graph_stream * s.a + c.graph_normed * s.e) * (mlps + mixed)
    / (2 * m.layers) + c.graph_mlp * (m.gated == false and 0.5
    or 1) * m.width * s.e * mlps / m.layers) + held.cast
  local kept = 0
  for _, mixer in ipairs(mixers) do
    local share, bytes = mixer.layers / m.layers, mixer.bytes
    -- A layer without attention keeps only its whole graph, or nothing.
    kept = kept + share * bytes.kept
    graph = graph + share * (bytes.graph or t * (model_shape.rows(m) + (m.latents or 0)) * s.e
      + bytes.kept
      -- Attention's result in the dtype of matrix products, if it was kept in another dtype,
      -- and the weights in that dtype.
      + (s.e ~= math.max(4, s.e) and (f.device == "cpu" or bytes.given > 0)
        and t * model_shape.given(m) * s.e or 0))
  end
  local all, back = (f.depth - whole) * input + selective * kept, nil
  if select(2, held.moved(0, f.activation_offload)) then
    local of_layer, gpu = all / math.max(f.depth - whole, 1), f.device == "cuda"
    local function stay(layers)
      return math.min(f.depth - whole, f.offloaded_layers or layers) * of_layer
    end
    -- If a layer's input is offloaded, attention's kept result is offloaded with it.
    local out = stay(gpu and selective > 0 and 1 or c.offloaded_layers[f.activation_offload])
    -- A GPU's host has room for everything that is offloaded, including the final norm's input.
    held.moved(gpu and all + input or all - out, f.activation_offload)
    all, back = out, stay(c.offloaded_back[f.activation_offload])
  end
  local of_first = whole > 0 and graph or input + (selective > 0 and kept or 0)
  return all + whole * graph, (back or all) + whole * graph, of_first
end

--- Bytes of the last layer's mixer that are still in memory when that layer's backward begins.
---@param f moonring.MemoryFacts
---@param bytes moonring.AttentionBytes
---@return number
function activation_bytes.of_last(f, bytes)
  local whole, selective = spending(f)
  -- On a GPU the gradient of attention's result does not exist yet.
  if whole == f.depth then return bytes.waiting - (f.device == "cuda" and bytes.gradient or 0) end
  return whole + selective == f.depth and bytes.kept or 0
end

--- The bytes of one chunk of logits, which exists in the dtype of sums and in that of the matrix
--- product, and the rows of the chunk. A softcap of the logits temporarily needs one more copy. On
--- a GPU one kernel reads the logits in the product's dtype.
---@param f moonring.MemoryFacts
---@param s { a: number, e: number, w: number, g: number }
---@return number bytes
---@return number rows
function activation_bytes.chunk(f, s)
  if f.logits ~= "chunked" then return 0, 0 end
  local m, t = f.model, f.tokens / f.sp
  local fused, sums = f.device == "cuda", math.max(4, s.e) -- fp32, or fp64
  local of_row = m.vocab * (fused and s.e or sums + (s.e ~= sums and s.e or 0))
  local most = math.max(coefficients.chunk_bytes, of_row * (f.logit_rows
    or coefficients.logit_rows[f.device]))
  local chunks = math.max(1, math.ceil(t * of_row / most))
  local capped = not fused and (m.logit_softcap or 0) ~= 0
  return t / chunks * (of_row + (capped and m.vocab * sums or 0)), t / chunks
end

--- Bytes per token during a whole micro-batch on a GPU: rotary cosines and sines, each for half of
--- the rotated features; id, position, target and index; log-prob.
---@param f moonring.MemoryFacts
---@param s { a: number, e: number, w: number, g: number }
---@return number
function activation_bytes.row(f, s)
  if f.device ~= "cuda" then return 0 end
  local sums = math.max(4, s.e)
  return (f.model.turning or f.model.head_dim) * sums + 4 * 8 + sums
end

return activation_bytes
