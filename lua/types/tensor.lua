---@meta moonring.native.tensor

--- A LibTorch tensor.
---
--- Every operator whose first argument is a tensor is a method of that name (operators.lua lists
--- them): `x:sum(0)`, `x:add_(y)`, `x:softmax(-1)`. Arguments stand as in the schema that
--- `moonring.operators.schemas(name)` gives; a table with names as keys at the end gives them by
--- name: `x:std { correction = 0 }`. Dims, rows and ids count from 0.
---
---     x[i]                  row i of dim 0; -1 is the last. A view
---     x[{ i, j }]           an element: one entry a dim
---     x[{ {1, 3}, 2 }]      {first, end, step}: rows 1 and 2 (end is not included), column 2
---     x[{ {}, 0 }]          {}: all of a dim; {first}: from there on
---     x[{ "...", 0 }]       "...": all the dims between; moonring.null: a new dim
---     x[mask], x[rows]      the elements that a bool or int64 tensor picks. A copy
---     x[..] = v             writes a tensor or a number, broadcast
---
--- `+ - * / ^ %` take a tensor or a number on either side, broadcast, and promote as PyTorch does:
--- a number never changes a floating dtype, and a number with a fraction makes an integer tensor
--- fp32. `#x` is the size of dim 0, tostring shows values as PyTorch prints them. `==` compares
--- handles; `x:eq(y)` compares elements. A whole number is an integer to an operator that tells
--- them apart: `ffi.new("double", 2)` or a dtype says otherwise.
---
--- Its bytes are charged to Lua's collector, which runs once a GiB has been made; `moonring.scope`
--- lets go sooner.
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

--- A dtype; PyTorch's own names (float32, long, half, ..) are read as well.
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

--- Lets go of the storage (which lives on where C++ holds it). Twice is fine; any other use
--- afterwards is an error.
function Tensor:close() end

--- Moves it out of the scope that it was made in, into the next outer one; returns it.
---@return moonring.Tensor
function Tensor:keep() end

--- log(1 / (1 + e^-x)) of each element, without overflow: the loss of DPO and reward models.
--- LibTorch's log_sigmoid, under PyTorch's name.
---@return moonring.Tensor
function Tensor:logsigmoid() end

--- The number that a tensor of one element holds; an error for any other.
---@return number
function Tensor:item() end

--- In another dtype or on another device, or both, in any order: `x:to "fp64"`, `x:to("cuda",
--- "bf16")`; `x:to(y)`: as y. Itself where nothing changes.
---@param what moonring.Dtype | string | moonring.Tensor
---@param more? moonring.Dtype | string
---@return moonring.Tensor
function Tensor:to(what, more) end

--- On the device of another tensor; itself where it is there.
---@param other moonring.Tensor
---@return moonring.Tensor
function Tensor:on(other) end

--- Its dtype's name; LibTorch's own name for one that is not listed at moonring.Dtype.
---@return string
function Tensor:dtype() end

--- "cpu", "cuda:0".
---@return string
function Tensor:device() end

--- The size of each dim; {} for a single number.
---@return integer[]
function Tensor:shape() end

--- The size of a dim; all sizes where none is given.
---@param dim? integer
---@return integer | integer[]
function Tensor:size(dim) end

--- How many dims there are.
---@return integer
function Tensor:dim() end

--- How many elements there are.
---@return integer
function Tensor:numel() end

--- Its numbers as lists in lists, one level a dim; a single number for shape []. For few elements.
---@return any
function Tensor:tolist() end

--- Whether it depends on something that learns, so that `backward` has a way to go.
---@return boolean
function Tensor:requires_grad() end

--- The gradient that `backward` has added so far, of a tensor that was made to require one
--- (requires_grad_); else nil.
---@return moonring.Tensor?
function Tensor:grad() end

--- The name of the node that made it ("MulBackward0"); "" where it has none.
---@return string
function Tensor:grad_fn() end

---@class moonring.BackwardOptions
---@field gradient? moonring.Tensor of its shape; ones where absent, of one element
---@field retain_graph? boolean for a further backward through the same graph; create_graph's where
---   absent
---@field create_graph? boolean records the backward itself, for a second derivative; false where
---   absent

--- Back-propagates from a loss of one element (of any shape where its gradient is given). The
--- gradients of a model's weights go to their Parameters, on top of what is there; those of tensors
--- that require one to x:grad(). A loss without a graph is an error: nothing would be learnt from
--- it, and where a backward communicates (sequence parallelism, ZeRO) the other ranks would wait
--- for this one. A rank that may have no target gives the log-probs as `joined`, and takes part
--- whatever its loss was made of. The options may stand in the place of `joined`.
---@param joined? moonring.Tensor goes backward too, with a gradient of zero
---@param how? moonring.BackwardOptions
function Tensor:backward(joined, how) end

---@class moonring.native.tensor
local tensor = {}

--- As `moonring.scope`.
---@param fn function
---@param ... any
---@return any ...
function tensor.scope(fn, ...) end

--- What `tolist` gives of each of these, in their order. All that lie on a device come by one copy,
--- which is waited for once.
---@param tensors moonring.Tensor[]
---@return any[]
function tensor.fetch(tensors) end

--- As `moonring.tensor`.
---@param values table
---@param how? moonring.Dtype | moonring.TensorOptions "fp32" where absent
---@return moonring.Tensor
function tensor.tensor(values, how) end

--- Whether a value is a tensor, a closed one too.
---@param value any
---@return boolean
function tensor.is_tensor(value) end

---@class moonring.UniformOptions
---@field seed integer
---@field step? integer 0 where absent
---@field name? string "script" where absent
---@field rows? moonring.Tensor int64 [N]: row n of [N, width] depends on rows[n] in place of n

--- Uniform numbers in [0, 1), multiples of 2^-24, each a function of the options and of its place:
--- fp32 on the CPU, or on the device of `rows`.
---@param shape integer[] with rows: { width }
---@param how moonring.UniformOptions
---@return moonring.Tensor
function tensor.uniform(shape, how) end

return tensor
