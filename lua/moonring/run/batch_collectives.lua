--- Differentiable collectives over the sp group, for losses and hooks: methods of moonring.Batch. A
-- value is sharded (made from this rank's tokens) or replicated (equal on every rank of the sp
-- group, as the sum over ranks is); docs/losses.md explains both. All are collective over the sp
-- group, and all ranks must call them in the same order.
--
-- Where a backward communicates, every rank must take part, even if its loss does not use the
-- result. So the results are added to batch.exchanged, from which the backward starts too.
local collectives = require "moonring.native.collectives"
local creation = require "moonring.base.creation"
local tensor = require "moonring.native.tensor"

---@class (partial) moonring.Batch
local Batch = {}

local function exchanged(batch, values)
  if values:requires_grad() then
    local sum = values:sum()
    batch.exchanged = batch.exchanged and batch.exchanged + sum:to(batch.exchanged:dtype()) or sum
  end
  return values
end

--- The sum over the sp group: sharded -> replicated. Backward: the identity.
---@param x moonring.Tensor of the same shape on each rank
---@return moonring.Tensor
function Batch:sum(x) return collectives.sum(x, self.mesh) end

--- The dual of the sum, for a use that differs between ranks: replicated -> sharded. Forward: the
--- identity. Backward: the sum of all ranks' gradients.
---@param x moonring.Tensor equal on each rank, such as document_sums
---@return moonring.Tensor
function Batch:spread(x) return exchanged(self, collectives.spread(x, self.mesh)) end

--- One value per document for each of this rank's tokens; 0 for tokens of shared prefixes. A tensor
--- must be replicated, such as document_sums: the result is sharded, and in the backward a document
--- gets the sum of the gradients of its tokens on all ranks.
---@param values number[] | moonring.Tensor one per document, or [documents, ...]
---@return moonring.Tensor [T_local, ...]; fp64 for a list of numbers
function Batch:per_token(values)
  local lengths = tensor.tensor(self:lengths(), "int64")
  if type(values) == "table" then
    local all = tensor.tensor(self:by_stream(values), "fp64")
    return self:cut(all:repeat_interleave(lengths))
  end
  local own, rows = self:sequence():own_documents(), self:spread(values)
  if own then
    local shape = rows:shape()
    shape[1] = lengths:numel()
    local none = creation.zeros(shape, { dtype = rows:dtype() }):on(rows)
    rows = none:index_copy(0, own:on(rows), rows)
  end
  return self:cut(rows:repeat_interleave(lengths:on(rows), 0))
end

--- The values of all ranks' tokens in the order of the stream, for a use that differs between
--- ranks: sharded -> sharded. Backward: a reduce-scatter, so that a rank gets the gradients that
--- all ranks have for its tokens.
---@param values moonring.Tensor [T_local, ...]
---@return moonring.Tensor [T, ...]
function Batch:gather(values)
  return exchanged(self, collectives.gather_stream(values, self.layout, self.mesh))
end

--- This rank's tokens of the sum of the streams that the ranks have: sharded -> sharded. Backward:
--- an all-gather.
---@param stream moonring.Tensor [T, ...]
---@return moonring.Tensor [T_local, ...]
function Batch:reduce_scatter(stream)
  return exchanged(self, collectives.reduce_scatter_stream(stream, self.layout, self.mesh))
end

--- Exchanges rows between ranks: sharded -> sharded. Backward: the inverse exchange.
---@param rows moonring.Tensor [N, ...]: first those for rank 0 of the sp group, and so on
---@param send integer[] the number of rows for each rank
---@return moonring.Tensor received rows, first those from rank 0
---@return integer[] received the number of rows from each rank
function Batch:all_to_all(rows, send)
  local received, counts = collectives.all_to_all(rows, send, self.mesh)
  return exchanged(self, received), counts
end

return Batch
