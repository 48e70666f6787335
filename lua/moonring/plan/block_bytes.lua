--- What a block holds while what follows attention in it runs backward. Letters as in memory.lua;
-- `s`: their bytes.
local coefficients = require "moonring.plan.coefficients"
local expert_share = require "moonring.plan.expert_share"
local model_shape = require "moonring.plan.model_shape"

---@class moonring.block_bytes
local block_bytes = {}

-- Tiles of rows in which what follows attention is run.
local function tiles_of(f, s)
  local m, c, t = f.model, coefficients, f.tokens / f.sp
  local row = s.a * (c.tile_mlp * m.width + (c.tile_stream + c.tile_chosen * (m.chosen
    or 0)) * m.hidden + model_shape.given(m))
  local least = f.tile_rows or c.tile_rows[f.device]
  -- Experts of several ranks see the rows of all at once.
  local most = (f.tile_bytes == 0 or expert_share.ranks(f) > 1) and t or math.max(least,
    math.min(least, c.tile_rows.cpu) * (m.tile_factor or 1), (f.tile_bytes or c.tile_bytes) / row)
  return math.max(1, math.ceil(t / most)), row
end

-- Whether the experts' products are made of all rows at once: those of a layer in two tensors, in
-- bf16 (model/blocks/grouped_stacks.h).
local function grouped(f, s)
  local m = f.model
  return m.stacked and s.e == 2 and expert_share.ranks(f) == 1 and m.hidden % 8 == 0
    and m.width % 8 == 0
end

-- What follows attention in a GPU's block while one tile runs backward, tensor by tensor. [D] of a
-- bytes: the stream after attention, the block's result; [D] of e bytes: what the MLP is given,
-- and, where the stream is in another dtype, its result's gradient. [I] of e bytes: gate, up, and
-- their product and its gradient, or their gradients, of which one is written over the product's
-- (kernels/gated.h): four; of experts two of all rows, and two of the rows of one that has its
-- share; where they are stacked five of it: the product's gradient, gate's and up's, and these two
-- side by side. Of experts [D] of e bytes four times for each choice: the rows as they are sent,
-- what comes back, and the gradients of both. DoRA keeps what it scales: [I] twice more; where it
-- scales gate's gradient gate and up are gone, and that is there in a bytes as well as in a
-- product.
--
-- Weights' gradients are added up in g bytes by the products they are made of. While the first tile
-- works only that of the last map is there; of experts that lie in two tensors a layer those of
-- all, which are made at once (model/blocks/grouped_mlp.cc). Those of up and gate come as gate's
-- and up's gradients go, one after the other, each with the rows' gradient [D] of e bytes that its
-- map gives; that of attention's last map at the end, beside the stream's gradient of a bytes and
-- the two of e bytes that it is taken to and from that map by. While a later tile works all are
-- there.
--
-- Experts whose products are made of all rows at once take [I] of e bytes six times when gate's and
-- up's gradients are laid side by side, with the sum of down's gradient alone; a tensor's gradient
-- is made in e bytes before it is added to its sum: down's beside gate, up and their product,
-- gate's and up's beside their gradients.
local function gpu_tile(f, s, learning)
  local m, t = f.model, f.tokens / f.sp
  local keeps_graph, tiles = f.recompute == "none", block_bytes.tiles(f, s)
  local block, rows = m.blocks / m.layers, t / tiles
  local after = learning * (1 - model_shape.entrance(m) / block)
  local mlp = after - learning * model_shape.given(m) * m.hidden / block
  local inner = m.experts and (2 + (m.stacked and 5 or 2) / m.experts) * s.e or 4 * s.e
  local given = 2 * s.a + s.e -- the stream twice, and normed
  local stream = given + (s.e == s.a and 0 or s.e)
  if keeps_graph then inner, stream, given = inner - 2 * s.e, s.e, 0 end -- the graph has them
  local choices = 4 * (m.chosen or 0) * s.e
  if f.rotates then inner = inner + 2 * s.e end -- what the last map takes, turned: x D and its sum
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
  -- Before the last map: what it takes, the stream and what attention's last map gave. Of W in
  -- another dtype than the sum's there is a copy besides.
  local norms = f.dora and rows * (5 * s.e * m.width + (s.a + 2 * s.e) * m.hidden) + (s.e == s.a
    and 1 or 2) * s.a * math.min(coefficients.norm_elements, f.dora) or 0
  return math.max(working, of_up, of_gate, of_output, norms), s.g * after
end

--- What a GPU has at the end of a block's backward, where the rows that q, k and v were made of are
--- made again for these maps' gradients, and their own gradient becomes the stream's.
---@param f moonring.MemoryFacts
---@param s { a: number, e: number, w: number, g: number }
---@param learning number parameters of a layer that learn
---@return number
function block_bytes.entrance(f, s, learning)
  local m, t = f.model, f.tokens / f.sp
  return t * (s.e * m.hidden + math.max(s.a * m.hidden, s.e * model_shape.rows(m)))
    + s.g * learning
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
