--- Predicts the bytes of the second half of a block, after attention (norm and MLP or experts),
-- while it runs backward. memory.lua defines the symbols; `s` has bytes per element.
local coefficients = require "moonring.plan.coefficients"
local expert_share = require "moonring.plan.expert_share"
local model_shape = require "moonring.plan.model_shape"

---@class moonring.block_bytes
local block_bytes = {}

-- The number of row tiles in which the MLP is computed, and the bytes of one row.
local function tiles_of(f, s)
  local m, c, t = f.model, coefficients, f.tokens / f.sp
  local row = s.a * (c.tile_mlp * m.width + (c.tile_stream + c.tile_chosen * (m.chosen
    or 0)) * m.hidden + model_shape.given(m))
  local least = f.tile_rows or c.tile_rows[f.device]
  -- Experts on several ranks process all rows at once.
  local most = (f.tile_bytes == 0 or expert_share.ranks(f) > 1) and t or math.max(least,
    math.min(least, c.tile_rows.cpu) * (m.tile_factor or 1), (f.tile_bytes or c.tile_bytes) / row)
  return math.max(1, math.ceil(t / most)), row
end

-- Whether the matrix products of all experts are computed for all rows at once, which needs bf16
-- and experts that are stored in two tensors per layer (model/blocks/grouped_stacks.h).
local function grouped(f, s)
  local m = f.model
  return m.stacked and s.e == 2 and expert_share.ranks(f) == 1 and m.hidden % 8 == 0
    and m.width % 8 == 0
end

-- The peak of a GPU while one tile of the MLP runs backward, tensor by tensor. [D] and [I] are
-- tensors with one row of D or I numbers per token.
--
--   [D] of a bytes   the stream after attention, and the block's result
--   [D] of e bytes   the MLP's input and, if the stream has another dtype, the gradient of its
--                    output
--   [I] of e bytes   four: gate, up, their product and its gradient; or gate, up and the gradients
--                    of both, one of which overwrites the product's gradient (kernels/gated.h)
--
-- With experts, two of the [I] tensors have all rows and two the rows of one expert with an even
-- share. If experts are stacked, five [I] tensors are needed: the gradients of the product, gate
-- and up, and the latter two next to each other. With experts there are also four [D] tensors of e
-- bytes per choice: the rows that are sent, the results that come back, and the gradients of both.
-- DoRA keeps the tensors that it scales: two more [I]. While it scales gate's gradient, gate and up
-- are already freed, and this gradient exists in a bytes and in the products' dtype.
--
-- Weight gradients are summed in g bytes by the products that compute them. During the first tile
-- only the gradient of the last map exists; if experts are stored in two tensors per layer, the
-- gradients of all experts, which are computed at once (model/blocks/grouped_mlp.cc). Then the
-- gradients of up's and gate's weights are added one after the other, while the gradients of up and
-- gate are freed; each map also returns the gradient of its input rows, [D] of e bytes. Last comes
-- the weight gradient of attention's output map, with the stream's gradient of a bytes and the
-- input and output gradients of that map, of e bytes each. During later tiles all weight gradients
-- exist.
--
-- Experts whose products are computed for all rows at once need six [I] of e bytes when gate's and
-- up's gradients are put next to each other; at this time only the sum of down's gradient exists. A
-- weight gradient is computed in e bytes before it is added to its sum: down's together with gate,
-- up and their product; gate's and up's together with their gradients.
local function gpu_tile(f, s, learning)
  local m, t = f.model, f.tokens / f.sp
  local keeps_graph, tiles = f.recompute == "none", block_bytes.tiles(f, s)
  local block, rows = m.blocks / m.layers, t / tiles
  local after = learning * (1 - model_shape.entrance(m) / block)
  local mlp = after - learning * model_shape.given(m) * m.hidden / block
  local inner = m.experts and (2 + (m.stacked and 5 or 2) / m.experts) * s.e or 4 * s.e
  local given = 2 * s.a + s.e -- the stream twice, and its norm
  local stream = given + (s.e == s.a and 0 or s.e)
  if keeps_graph then inner, stream, given = inner - 2 * s.e, s.e, 0 end -- the graph has them
  local choices = 4 * (m.chosen or 0) * s.e
  if f.rotates then inner = inner + 2 * s.e end -- OFT's rotated input: x D and its sum
  if f.dora then inner = math.max(inner + 2 * s.e, 5 * s.e + (s.e == s.a and s.a or 2 * s.a)) end
  local working = rows * (inner * m.width + (stream + choices) * m.hidden)
    + s.g * (tiles > 1 and after or m.stacked and mlp or mlp / 3 / (m.experts or 1))
  if grouped(f, s) then
    local kept = keeps_graph and 2 or 0
    local function at(numbers, sums, made)
      return rows * (numbers * s.e * m.width + (stream + choices) * m.hidden)
        + (tiles > 1 and s.g * after or s.g * mlp * sums) + s.e * mlp * made
    end
    working = math.max(at(6 - kept, 1 / 3, 0), at(3 - kept, 1 / 3, 1 / 3), at(2, 1, 2 / 3))
  end
  local of_up = rows * (2 * s.e * m.width + (given + s.e + choices) * m.hidden) + s.g * mlp * 2 / 3
  local of_gate = rows * (s.e * m.width + (given + 2 * s.e + choices) * m.hidden) + s.g * mlp
  if m.experts then -- one after the other: the last one's
    local part = grouped(f, s) and 1 or 1 / m.experts
    of_up, of_gate = 0, rows * (2 * s.e * part * m.width + (given + s.e + choices) * m.hidden)
      + s.g * mlp
  end
  local of_output = rows * ((keeps_graph and s.a or 3 * s.a) * m.hidden + s.e * (2 * m.hidden
    + model_shape.given(m))) + s.g * after
  -- Before the last map: its input, the stream and the output of attention's last map. If W has
  -- another dtype than the sum, there is also a copy.
  local norms = f.dora and rows * (5 * s.e * m.width + (s.a + 2 * s.e) * m.hidden) + (s.e == s.a
    and 1 or 2) * s.a * math.min(coefficients.norm_elements, f.dora) or 0
  return math.max(working, of_up, of_gate, of_output, norms), s.g * after
end

--- Bytes of a GPU at the end of a block's backward. There the input rows of the maps to q, k and v
--- are recomputed for the gradients of these maps, and the rows' gradient becomes that of the
--- stream.
---@param f moonring.MemoryFacts
---@param s { a: number, e: number, w: number, g: number }
---@param learning number trainable parameters of a layer
---@return number
function block_bytes.entrance(f, s, learning)
  local m, t = f.model, f.tokens / f.sp
  return t * (s.e * m.hidden + math.max(s.a * m.hidden, s.e * model_shape.rows(m)))
    + s.g * learning
end

--- The number of row tiles in which the MLP runs backward.
---@param f moonring.MemoryFacts
---@param s { a: number, e: number, w: number, g: number }
---@return number
function block_bytes.tiles(f, s)
  return (f.recompute == "none" or f.mlp == "whole") and 1 or (tiles_of(f, s))
end

--- Bytes while the MLP of a block runs backward: one tile of rows, and the gradients of its
--- weights, summed in g bytes. Also returns the bytes of these gradients after the MLP's backward.
---@param f moonring.MemoryFacts
---@param s { a: number, e: number, w: number, g: number }
---@param learning number trainable parameters of a layer
---@return number working
---@return number done
function block_bytes.tiled(f, s, learning)
  local m, c, t = f.model, coefficients, f.tokens / f.sp
  if f.mlp == "whole" then
    return c.whole_mlp * t * m.width * s.e + s.e * learning, s.e * learning
  end
  if f.device == "cuda" then return gpu_tile(f, s, learning) end
  -- The whole graph is counted elsewhere.
  if f.recompute == "none" then return s.g * learning, s.g * learning end
  local tiles, row = tiles_of(f, s)
  -- Gradients that a product cannot add to a sum directly need memory in addition to the sum.
  local beside = tiles > 1 and s.e == s.g and s.e or 0
  return t / tiles * row + (s.g + beside) * learning, s.g * learning
end

return block_bytes
