--- What a block holds while what follows attention in it runs backward. Letters as in memory.lua;
-- `s`: their bytes.
local coefficients = require "moonring.plan.coefficients"

---@class moonring.block_bytes
local block_bytes = {}

-- Tiles of rows in which what follows attention is run.
local function tiles_of(f, s)
  local m, c, t = f.model, coefficients, f.tokens / f.sp
  local row = s.a * (c.tile_mlp * m.width + (c.tile_stream + c.tile_chosen * (m.chosen
    or 0)) * m.hidden + m.heads * m.head_dim)
  local least = f.tile_rows or c.tile_rows[f.device]
  local most = f.tile_bytes == 0 and t or math.max(least,
    math.min(least, c.tile_rows.cpu) * (m.tile_factor or 1), (f.tile_bytes or c.tile_bytes) / row)
  return math.max(1, math.ceil(t / most)), row
end

-- What follows attention in a GPU's block while one tile runs backward, tensor by tensor. [D] of a
-- bytes: the stream after attention, the block's result; [D] of e bytes: what the MLP is given and
-- its result's gradient (in fp32 the first is there once more in the place of these two). [I] of e
-- bytes: gate, up, their product's parts and its gradient, five; of experts two of all rows, and
-- three of the rows of one that has its share. Of experts [D] of e bytes four times for each
-- choice: the rows as they are sent, what comes back, and the gradients of both. DoRA keeps what it
-- scales: [I] twice more; where it scales gate's gradient gate and up are gone, and that is there
-- in a bytes as well as in a product.
--
-- Weights' gradients are added up in g bytes by the products they are made of. While the first tile
-- works only that of the last map is there, and at its end all of them beside the gradients of gate
-- and up; while a later one works, all of them.
local function gpu_tile(f, s, learning)
  local m, t = f.model, f.tokens / f.sp
  local keeps_graph, tiles = f.recompute == "none", block_bytes.tiles(f, s)
  local gradients, inner = learning * (1 - (m.heads + 2 * m.kv_heads) * m.head_dim * m.hidden / (
    m.blocks / m.layers)), 5 * s.e
  if m.experts then inner = (2 + 3 / m.experts) * s.e end
  local stream = s.e == s.a and 3 * s.a or 2 * s.a + 2 * s.e
  if keeps_graph then inner, stream = inner - 2 * s.e, s.e end -- the graph has them
  if f.dora then inner = math.max(inner + 2 * s.e, 5 * s.e + (s.e == s.a and s.a or 2 * s.a)) end
  local working = t / tiles * (inner * m.width + (stream + 4 * (m.chosen
    or 0) * s.e) * m.hidden) + s.g * gradients / (tiles > 1 and 1 or 3)
  local ending = t / tiles * (2 * s.e * m.width + stream * m.hidden) + s.g * gradients
  local norms = f.dora and t / tiles * (5 * s.e * m.width + stream * m.hidden) + 2 * s.a * math.min(
    coefficients.norm_elements, f.dora) or 0
  return math.max(working, ending, norms), s.g * gradients
end

--- In how many tiles what follows attention runs backward.
---@param f moonring.MemoryFacts
---@param s { a: number, e: number, w: number, g: number }
---@return number
function block_bytes.tiles(f, s)
  return (f.recompute == "none" or f.mlp == "whole") and 1 or (tiles_of(f, s))
end

--- What follows attention in a block, in work backward: bytes of a tile of rows with the gradients
--- of its weights, summed in g bytes. Then these gradients when it is done.
---@param f moonring.MemoryFacts
---@param s { a: number, e: number, w: number, g: number }
---@param learning number parameters of a layer that learn
---@return number working
---@return number done
function block_bytes.tiled(f, s, learning)
  local m, c, t = f.model, coefficients, f.tokens / f.sp
  if f.mlp == "whole" then
    return c.whole_mlp * t * m.width * s.e + s.e * learning, s.e * learning
  end
  if f.device == "cuda" then return gpu_tile(f, s, learning) end
  -- The whole graph is there already.
  if f.recompute == "none" then return s.g * learning, s.g * learning end
  local tiles, row = tiles_of(f, s)
  -- What products do not add up themselves is there beside the sum over the tiles.
  local beside = tiles > 1 and s.e == s.g and s.e or 0
  return t / tiles * row + (s.g + beside) * learning, s.g * learning
end

return block_bytes
