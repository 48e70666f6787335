---@meta moonring.native.tensor

--- A LibTorch tensor. Only what scripts need is here: what costs time is in the cores.
---
--- `+ - * / ^` take a tensor or a number on either side, broadcast, and promote as PyTorch does: a
--- number never changes a floating dtype, and a number with a fraction makes an integer tensor
--- fp32. All but `detach` and what returns numbers is recorded for backward.
---
--- Its bytes are charged to Lua's collector, which runs once a GiB has been made; `moonring.scope`
--- lets go sooner.
---@class moonring.Tensor
---@operator add(moonring.Tensor | number): moonring.Tensor
---@operator sub(moonring.Tensor | number): moonring.Tensor
---@operator mul(moonring.Tensor | number): moonring.Tensor
---@operator div(moonring.Tensor | number): moonring.Tensor
---@operator pow(moonring.Tensor | number): moonring.Tensor
---@operator unm: moonring.Tensor
local Tensor = {}

---@alias moonring.Dtype
---| "fp32"
---| "fp64"
---| "bf16"
---| "int64"
---| "bool"

--- Lets go of the storage (which lives on where C++ holds it). Twice is fine; any other use
--- afterwards is an error.
function Tensor:close() end

--- Moves it out of the scope that it was made in, into the next outer one; returns it.
---@return moonring.Tensor
function Tensor:keep() end

--- Writes another tensor's numbers into this one, in its own dtype, broadcast where the shapes want
--- it, and returns it: as copy_ of PyTorch. Of a tensor that backward needs as it was, backward is
--- an error. Into a view it writes what the view is of.
---@param from moonring.Tensor
---@return moonring.Tensor
function Tensor:copy_(from) end

--- The sum of all elements, of shape [].
---@return moonring.Tensor
function Tensor:sum() end

--- The mean of all elements, of shape []. Not of integers.
---@return moonring.Tensor
function Tensor:mean() end

--- sqrt of the sum of squares of all elements, of shape []. Not of integers.
---@return moonring.Tensor
function Tensor:norm() end

--- The absolute value of each element.
---@return moonring.Tensor
function Tensor:abs() end

--- e^x of each element.
---@return moonring.Tensor
function Tensor:exp() end

--- The natural logarithm of each element.
---@return moonring.Tensor
function Tensor:log() end

--- x^2 of each element.
---@return moonring.Tensor
function Tensor:square() end

--- The square root of each element.
---@return moonring.Tensor
function Tensor:sqrt() end

--- 1 / (1 + e^-x) of each element.
---@return moonring.Tensor
function Tensor:sigmoid() end

--- max(x, 0) of each element.
---@return moonring.Tensor
function Tensor:relu() end

--- Each element kept within bounds, of which at least one is given. The gradient passes at a bound.
---@param least? number
---@param most? number
---@return moonring.Tensor
function Tensor:clamp(least, most) end

--- Where an element is greater: bool.
---@param than moonring.Tensor | number
---@return moonring.Tensor
function Tensor:gt(than) end

--- Where an element is less: bool.
---@param than moonring.Tensor | number
---@return moonring.Tensor
function Tensor:lt(than) end

--- Where elements are equal: bool.
---@param to moonring.Tensor | number
---@return moonring.Tensor
function Tensor:eq(to) end

--- log(1 / (1 + e^-x)) of each element, without overflow: the loss of DPO and reward models.
---@return moonring.Tensor
function Tensor:logsigmoid() end

--- The same storage outside autograd's graph.
---@return moonring.Tensor
function Tensor:detach() end

--- The number that a tensor of one element holds; an error for any other.
---@return number
function Tensor:item() end

--- In another dtype; itself where it has that one.
---@param dtype moonring.Dtype
---@return moonring.Tensor
function Tensor:to(dtype) end

--- On the device of another tensor; itself where it is there.
---@param other moonring.Tensor
---@return moonring.Tensor
function Tensor:on(other) end

--- "fp32", "fp64", "bf16", "int64" or "bool"; LibTorch's own name for any other.
---@return string
function Tensor:dtype() end

--- The size of each dim; {} for a single number.
---@return integer[]
function Tensor:shape() end

--- How many elements there are.
---@return integer
function Tensor:numel() end

--- Row `index` (from 0; -1 is the last) of dim 0, without that dim. A view.
---@param index integer
---@return moonring.Tensor
function Tensor:select(index) end

--- Rows [first, last) of dim 0, cut to what is there; below 0 counts from the end. A view.
---@param first integer from 0
---@param last integer not included
---@param step? integer every step-th of them; 1 where absent
---@return moonring.Tensor
function Tensor:slice(first, last, step) end

--- Some rows of dim 0, in the order asked for.
---@param rows integer[] from 0
---@return moonring.Tensor
function Tensor:index(rows) end

--- The elements where `mask` is true, in one row.
---@param mask moonring.Tensor
---@return moonring.Tensor
function Tensor:masked(mask) end

--- Its numbers as lists in lists, one level a dim; a single number for shape []. For few elements.
---@return any
function Tensor:tolist() end

--- Whether it depends on something that learns, so that `backward` has a way to go.
---@return boolean
function Tensor:requires_grad() end

--- Back-propagates from a loss of one element. Gradients of a model's weights go to their
--- Parameters, on top of what is there. A loss without a graph is an error: nothing would be learnt
--- from it, and where a backward communicates (sequence parallelism, ZeRO) the other ranks would
--- wait for this one. A rank that may have no target gives the log-probs as `joined`, and takes
--- part whatever its loss was made of.
---@param joined? moonring.Tensor goes backward too, with a gradient of zero
function Tensor:backward(joined) end

---@class moonring.native.tensor
local tensor = {}

--- As `moonring.scope`.
---@param fn function
---@param ... any
---@return any ...
function tensor.scope(fn, ...) end

--- As `moonring.no_grad`.
---@param fn function
---@param ... any
---@return any ...
function tensor.no_grad(fn, ...) end

--- As `moonring.cat`.
---@param rows moonring.Tensor[]
---@return moonring.Tensor
function tensor.cat(rows) end

--- What `tolist` gives of each of these, in their order. All that lie on a device come by one copy,
--- which is waited for once.
---@param tensors moonring.Tensor[]
---@return any[]
function tensor.fetch(tensors) end

--- As `moonring.tensor`.
---@param values table
---@param dtype? moonring.Dtype "fp32" where absent
---@return moonring.Tensor
function tensor.tensor(values, dtype) end

return tensor
