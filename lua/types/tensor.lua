---@meta moonring.native.tensor

--- A LibTorch tensor.
---
--- Every operator whose first argument is a tensor is also a method (listed in operators.lua):
--- `x:sum(0)`, `x:add_(y)`, `x:softmax(-1)`. Arguments are in the order of the schema that
--- `moonring.operators.schemas(name)` returns; a final table passes arguments by name: `x:std {
--- correction = 0 }`. Dims, rows and ids count from 0.
---
---     x[i]                  row i of dim 0; -1 is the last. A view
---     x[{ i, j }]           an element: one entry for each dim
---     x[{ {1, 3}, 2 }]      {first, end, step}: rows 1 and 2 (end is exclusive), column 2
---     x[{ {}, 0 }]          {}: all of a dim; {first}: from there on
---     x[{ "...", 0 }]       "...": all the dims between; moonring.null: a new dim
---     x[mask], x[rows]      the elements that a bool or int64 tensor selects. A copy
---     x[..] = v             writes a tensor or a number, broadcast
---
--- `+ - * / ^ %` accept a tensor or a number on either side, broadcast, and promote as PyTorch
--- does: a number never changes a floating dtype, and a number with a fraction makes an integer
--- tensor fp32. `#x` is the size of dim 0; tostring prints values as PyTorch does. Operators that
--- distinguish integers from floats receive a whole number as an integer, unless it is
--- `ffi.new("double", 2)` or a dtype is given.
---
--- Lua's comparisons give one boolean, so `==`, `~=` and `<` of two tensors are refused: `x:eq(y)`
--- compares elements, `x:equal(y)` is one boolean, `rawequal(x, y)` compares handles. Two slips
--- that Lua cannot report: `x == 1` is false for any tensor x, and `if x:gt(0) then` is always
--- true; write `x:eq(1)`, and `if x:gt(0):any():item() then`.
---
--- A tensor's bytes are reported to Lua's garbage collector, which runs after each GiB of new
--- tensors; `moonring.scope` frees tensors earlier.
---@class moonring.Tensor: moonring.TensorOperators
---@operator add(moonring.Tensor | number): moonring.Tensor
---@operator sub(moonring.Tensor | number): moonring.Tensor
---@operator mul(moonring.Tensor | number): moonring.Tensor
---@operator div(moonring.Tensor | number): moonring.Tensor
---@operator pow(moonring.Tensor | number): moonring.Tensor
---@operator mod(moonring.Tensor | number): moonring.Tensor
---@operator unm: moonring.Tensor
---@operator len: integer
local Tensor = {}

--- A dtype. PyTorch's names (float32, long, half, ..) are accepted as synonyms.
---@alias moonring.Dtype
---| "fp32"
---| "fp64"
---| "bf16"
---| "fp16"
---| "int64"
---| "int32"
---| "int16"
---| "int8"
---| "uint8"
---| "bool"
---| "complex64"
---| "complex128"

--- Closes this handle and releases its share of the storage. The storage stays alive while C++
--- references it. close() may be called twice; any other use of a closed tensor is an error.
function Tensor:close() end

--- Moves the tensor out of the `moonring.scope` in which it was created, into the next outer one,
--- and returns it.
---@return moonring.Tensor
function Tensor:keep() end

--- log(1 / (1 + e^-x)) of each element, computed without overflow; used in the losses of DPO and
--- reward models. The same as LibTorch's log_sigmoid.
---@return moonring.Tensor
function Tensor:logsigmoid() end

--- The value of a tensor with one element: a number, or a boolean for a bool tensor. Raises an
--- error for a tensor with another number of elements, and for a complex one.
---@return any
function Tensor:item() end

--- Converts the tensor to another dtype or device, or both, in any order: `x:to "fp64"`,
--- `x:to("cuda", "bf16")`; `x:to(y)` uses the dtype and device of the tensor y. Returns the tensor
--- itself if nothing changes.
---@param what moonring.Dtype | string | moonring.Tensor
---@param more? moonring.Dtype | string
---@return moonring.Tensor
function Tensor:to(what, more) end

--- Moves the tensor to the device of another tensor. Returns the tensor itself if it is already
--- there.
---@param other moonring.Tensor
---@return moonring.Tensor
function Tensor:on(other) end

--- The name of the tensor's dtype; LibTorch's name for a dtype that moonring.Dtype does not list.
---@return string
function Tensor:dtype() end

--- The device: "cpu", "cuda:0".
---@return string
function Tensor:device() end

--- The size of each dim; {} for a scalar.
---@return integer[]
function Tensor:shape() end

--- The size of one dim; without an argument, the sizes of all dims.
---@param dim? integer
---@return integer | integer[]
function Tensor:size(dim) end

--- Number of dims.
---@return integer
function Tensor:dim() end

--- Number of elements.
---@return integer
function Tensor:numel() end

--- The values as nested lists, one level for each dim; a number if the tensor has no dims. The
--- values of a bool tensor are booleans (the number 0 is true in Lua). Meant for tensors with few
--- elements.
---@return any
function Tensor:tolist() end

--- Whether autograd will compute a gradient through this tensor.
---@return boolean
function Tensor:requires_grad() end

--- The gradient that `backward` has accumulated, for a leaf tensor with requires_grad; else nil.
---@return moonring.Tensor?
function Tensor:grad() end

--- The name of the autograd node that computed the tensor ("MulBackward0"); "" if there is none.
---@return string
function Tensor:grad_fn() end

---@class moonring.BackwardOptions
---@field gradient? moonring.Tensor gradient of this tensor, with the same shape; default: ones,
---   only allowed for a tensor with one element
---@field retain_graph? boolean whether the graph is kept for another backward; default:
---   create_graph
---@field create_graph? boolean whether the backward itself is recorded, so that it can be
---   differentiated again; default false

--- Back-propagates from a loss with one element (or of any shape, if its gradient is given). The
--- gradients of model weights are added to their Parameters, those of other leaf tensors to
--- x:grad(). A loss that is not part of a graph is an error: it would train nothing, and if the
--- backward communicates (sequence parallelism, ZeRO) the other ranks would wait for this one. On a
--- rank that may have no target, pass the log-probs as `joined`: the rank then takes part in this
--- communication. The options may be the first argument.
---@param joined? moonring.Tensor another tensor that is back-propagated from, with a gradient of
---   zero
---@param how? moonring.BackwardOptions
function Tensor:backward(joined, how) end

---@class moonring.native.tensor
local tensor = {}

--- The same function as `moonring.scope`.
---@param fn function
---@param ... any
---@return any ...
function tensor.scope(fn, ...) end

--- Returns a list with `tolist` of each tensor. Tensors on a GPU are copied to the host together,
--- with one synchronization.
---@param tensors moonring.Tensor[]
---@return any[]
function tensor.fetch(tensors) end

--- The same function as `moonring.tensor`.
---@param values table
---@param how? moonring.Dtype | moonring.TensorOptions default "fp32"
---@return moonring.Tensor
function tensor.tensor(values, how) end

--- Whether a value is a tensor. A closed tensor counts too.
---@param value any
---@return boolean
function tensor.is_tensor(value) end

---@class moonring.UniformOptions
---@field seed integer
---@field step? integer default 0
---@field name? string default "script"
---@field rows? moonring.Tensor int64 [N]: row n of the result [N, width] depends on rows[n] instead
---   of n

--- Returns uniform random numbers in [0, 1), which are multiples of 2^-24. Each number depends only
--- on the options and its position. The result is fp32, on the CPU or on the device of `rows`.
---@param shape integer[] with the option rows: { width }
---@param how moonring.UniformOptions
---@return moonring.Tensor
function tensor.uniform(shape, how) end

return tensor
