---@meta moonring.native.collectives

--- Differentiable collectives over the ranks of an sp group, for losses. A value is *sharded* (made
--- from this rank's tokens; the whole is the sum over the group) or *replicated* (equal on every
--- rank of the group, as the sum is). All ranks must call them, and their backward, in the same
--- order. In an objective use the methods of moonring.Batch with the same names, which make every
--- rank take part in the backward.
---@class moonring.collectives
local collectives = {}

--- The sum over the sp group: sharded -> replicated. Backward: the identity, without communication.
---@param x moonring.Tensor of the same shape on each rank
---@param mesh moonring.Mesh
---@return moonring.Tensor
function collectives.sum(x, mesh) end

--- The dual of the sum: replicated -> sharded. Forward: the identity. Backward: the sum of the
--- gradients of all ranks.
---@param x moonring.Tensor equal on each rank
---@param mesh moonring.Mesh
---@return moonring.Tensor
function collectives.spread(x, mesh) end

--- The rows of all ranks, in the order of ranks: sharded -> sharded. Ranks may have different
--- numbers of rows, or none. Backward: a reduce-scatter: a rank gets the sum of the gradients that
--- all ranks have for its rows.
---@param rows moonring.Tensor [N, ...]
---@param mesh moonring.Mesh
---@return moonring.Tensor [N of all ranks, ...]
function collectives.gather(rows, mesh) end

--- This rank's rows of the sum of all ranks' `rows`: sharded -> sharded. Backward: an all-gather.
---@param rows moonring.Tensor [N, ...] of the same shape on each rank
---@param counts integer[] the number of rows that each rank gets, in the order of ranks
---@param mesh moonring.Mesh
---@return moonring.Tensor [counts of this rank, ...]
function collectives.reduce_scatter(rows, counts, mesh) end

--- Exchanges rows between ranks: sharded -> sharded. Backward: the inverse exchange.
---@param rows moonring.Tensor [N, ...]: first those for rank 0, and so on
---@param send integer[] the number of rows for each rank
---@param mesh moonring.Mesh
---@return moonring.Tensor received rows, first those from rank 0
---@return integer[] counts the number of rows from each rank
function collectives.all_to_all(rows, send, mesh) end

--- As `gather`, for one row for each of this rank's tokens: returns the rows in the order of the
--- stream.
---@param values moonring.Tensor [T_local, ...]
---@param layout moonring.Layout
---@param mesh moonring.Mesh
---@return moonring.Tensor [T, ...]
function collectives.gather_stream(values, layout, mesh) end

--- As `reduce_scatter`, for one row for each token of the stream: returns the rows of this rank's
--- tokens.
---@param stream moonring.Tensor [T, ...]
---@param layout moonring.Layout
---@param mesh moonring.Mesh
---@return moonring.Tensor [T_local, ...]
function collectives.reduce_scatter_stream(stream, layout, mesh) end

--- Looks in a loss's graph for a value of one kind that is used as one of the other kind
--- (comm/loss_kinds.h). An engine calls it for the losses of objectives. No communication.
---@param loss moonring.Tensor
---@param kind "sharded" | "replicated" the kind that the loss must have
---@return "sum" | "share" | "weights" | nil what "sum": a sum over ranks is used as sharded;
---   "share": a sharded result of a collective is used as replicated; "weights": a parameter, or
---   the model's output, is used as replicated. Nil: no fault
---@return string? node the name of the collective, or of the node that uses a parameter
---@return string? inside the name of the collective whose input must be replicated; "": the loss
---   itself must be
function collectives.kind_breach(loss, kind) end

return collectives
