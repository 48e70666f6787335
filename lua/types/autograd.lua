---@meta moonring.native.autograd

--- Native functions for gradients; scripts use them as `moonring.autograd`. Everything runs on the
--- calling thread. Transformer blocks, attention and log-probs, which are native code, have no
--- second derivative: a backward with create_graph through them raises an error that names them.
--- The option `weights` of Model:forward and of objectives.log_prob composes them of operators that
--- have one.
---@class moonring.native.autograd
local autograd = {}

---@class moonring.GradOptions
---@field gradient? moonring.Tensor gradient of the first output; default: ones, only for an output
---   with one element
---@field gradients? moonring.Tensor[] one for each output
---@field retain_graph? boolean whether the graph is kept for another backward; default:
---   create_graph
---@field create_graph? boolean whether the backward itself is recorded, so that it can be
---   differentiated again; default false
---@field allow_unused? boolean whether an input that no output depends on gets nil instead of an
---   error; default false

---@class moonring.BackwardOfAllOptions
---@field gradient? moonring.Tensor gradient of the first output; default: ones, only for an output
---   with one element
---@field gradients? moonring.Tensor[] one for each output
---@field retain_graph? boolean whether the graph is kept for another backward; default:
---   create_graph
---@field create_graph? boolean whether the backward itself is recorded, so that it can be
---   differentiated again; default false

--- Back-propagates from several tensors at once.
---@param outputs moonring.Tensor[] | moonring.Tensor
---@param how? moonring.BackwardOfAllOptions
function autograd.backward(outputs, how) end

--- Whether autograd currently records operations (false inside no_grad).
---@return boolean
function autograd.is_recording() end

--- Returns the gradients of outputs with respect to inputs, as torch.autograd.grad does; the
--- accumulated gradients of the inputs do not change. For a list of inputs it returns a list, for a
--- single input a tensor.
---
---     local g = moonring.autograd.grad(loss, x, { create_graph = true })
---@param outputs moonring.Tensor[] | moonring.Tensor
---@param inputs moonring.Tensor[] | moonring.Tensor
---@param how? moonring.GradOptions
---@return moonring.Tensor[] | moonring.Tensor
function autograd.grad(outputs, inputs, how) end

--- The same function as `moonring.no_grad`.
---@param fn function
---@param ... any
---@return any ...
function autograd.no_grad(fn, ...) end

--- Runs `fn(...)` while autograd records operations, even inside no_grad or a backward, and returns
--- its results.
---@param fn function
---@param ... any
---@return any ...
function autograd.with_grad(fn, ...) end

---@class moonring.FuncOptions
---@field forward function receives (ctx, ...), where ... are the function's arguments; runs without
---   recording; returns tensors
---@field backward function receives (ctx, ...), where ... is a gradient for each result (zeros if
---   the result has none); returns one gradient for each argument, nil for an argument without
---   gradient
---@field name? string used in messages and as the node's name; default "func"

--- Defines an operator with a custom backward in Lua, as torch.autograd.Function does:
---
---     local cube = moonring.autograd.func {
---       name = "cube",
---       forward = function(ctx, x) ctx:save(x) return x ^ 3 end,
---       backward = function(ctx, g) return g * 3 * ctx:saved() ^ 2 end,
---     }
---
--- `ctx` is the same table in both functions. `ctx:save(...)` keeps tensors for the backward, and
--- `ctx:saved()` returns them there; a write into such a tensor in between is an error in the
--- backward. The script may set any other field of ctx. The Lua backward runs on the calling
--- thread, inside the backward that needs it; an error in the Lua code ends that backward with the
--- same error. The backward can be differentiated again if it uses differentiable operators.
---@param how moonring.FuncOptions
---@return fun(...): moonring.Tensor ...
function autograd.func(how) end

return autograd
