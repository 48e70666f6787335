---@meta moonring.native.autograd

--- Native functions for gradients; scripts use them as `moonring.autograd`. Everything runs on the
--- calling thread. Native blocks, attention and log-probs have no second derivative: create_graph
--- through them raises an error that names them.
---@class moonring.native.autograd
local autograd = {}

---@class moonring.GradOptions
---@field gradient? moonring.Tensor gradient of the first output; default: ones, only for an output
---   with one element
---@field gradients? moonring.Tensor[] one for each output
---@field retain_graph? boolean whether the graph is kept for another backward; default:
---   create_graph
---@field create_graph? boolean whether the backward is recorded, for a second derivative; default
---   false
---@field allow_unused? boolean whether an input that no output depends on gets nil instead of an
---   error; default false

---@class moonring.BackwardOfAllOptions
---@field gradient? moonring.Tensor gradient of the first output; default: ones, only for an output
---   with one element
---@field gradients? moonring.Tensor[] one for each output
---@field retain_graph? boolean whether the graph is kept for another backward; default:
---   create_graph
---@field create_graph? boolean whether the backward is recorded, for a second derivative; default
---   false

--- Back-propagates from several tensors at once.
---@param outputs moonring.Tensor[] | moonring.Tensor
---@param how? moonring.BackwardOfAllOptions
function autograd.backward(outputs, how) end

--- Whether computations are currently recorded for a backward.
---@return boolean
function autograd.is_recording() end

--- Returns the gradients of outputs with respect to inputs without adding them to the inputs' own,
--- as torch.autograd.grad does. A list of inputs returns a list, a single input a tensor.
---
---     local g = moonring.autograd.grad(loss, x, { create_graph = true })
---@param outputs moonring.Tensor[] | moonring.Tensor
---@param inputs moonring.Tensor[] | moonring.Tensor
---@param how? moonring.GradOptions
---@return moonring.Tensor[] | moonring.Tensor
function autograd.grad(outputs, inputs, how) end

--- As `moonring.no_grad`.
---@param fn function
---@param ... any
---@return any ...
function autograd.no_grad(fn, ...) end

--- Runs `fn(...)` with recording, even inside no_grad or a backward, and returns its results.
---@param fn function
---@param ... any
---@return any ...
function autograd.with_grad(fn, ...) end

---@class moonring.FuncOptions
--- is called with (ctx, ...), the function's arguments, without recording; returns tensors
---@field forward function
--- is called with (ctx, ...), a gradient for each result (zeros if it has none); returns one for
--- each argument, nil for an argument without gradient
---@field backward function
---@field name? string used in messages and as the node's name; default "func"

--- Defines an operator with a custom backward in Lua, as torch.autograd.Function does:
---
---     local cube = moonring.autograd.func {
---       name = "cube",
---       forward = function(ctx, x) ctx:save(x) return x ^ 3 end,
---       backward = function(ctx, g) return g * 3 * ctx:saved() ^ 2 end,
---     }
---
--- `ctx` is the same table in both functions: `ctx:save(...)` keeps tensors for the backward
--- (writing into one of them before the backward is an error there), `ctx:saved()` returns them,
--- and the script may set any other field. The Lua backward runs on the calling thread, inside the
--- backward that needs it; an error in it ends that backward with the same error. It can be
--- differentiated again if it uses differentiable operators.
---@param how moonring.FuncOptions
---@return fun(...): moonring.Tensor ...
function autograd.func(how) end

return autograd
