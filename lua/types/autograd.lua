---@meta moonring.native.autograd

--- Gradients: `moonring.autograd` has all of this. Everything runs on the calling thread. Native
--- blocks, attention and log-probs have no second derivative: create_graph through them is an error
--- that names them.
---@class moonring.native.autograd
local autograd = {}

---@class moonring.GradOptions
---@field gradient? moonring.Tensor of the first output; ones where absent, of one element
---@field gradients? moonring.Tensor[] one of each output
---@field retain_graph? boolean for a further backward through the same graph; create_graph's where
---   absent
---@field create_graph? boolean records the backward, for a second derivative; false where absent
---@field allow_unused? boolean nil for an input that no output depends on; false where absent, and
---   then it is an error

---@class moonring.BackwardOfAllOptions
---@field gradient? moonring.Tensor of the first output; ones where absent, of one element
---@field gradients? moonring.Tensor[] one of each output
---@field retain_graph? boolean for a further backward through the same graph; create_graph's where
---   absent
---@field create_graph? boolean records the backward, for a second derivative; false where absent

--- Back-propagates from several tensors at once.
---@param outputs moonring.Tensor[] | moonring.Tensor
---@param how? moonring.BackwardOfAllOptions
function autograd.backward(outputs, how) end

--- Whether what is computed now is recorded for a backward.
---@return boolean
function autograd.is_recording() end

--- The gradients of outputs with respect to inputs, which are left without one of their own: as
--- torch.autograd.grad. A list of inputs gives a list, one input a tensor.
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

--- Runs `fn(...)` with recording, inside a no_grad or a backward too, and returns what it returns.
---@param fn function
---@param ... any
---@return any ...
function autograd.with_grad(fn, ...) end

---@class moonring.FuncOptions
--- sees (ctx, ...): what the function is called with; records nothing; returns tensors
---@field forward function
--- sees (ctx, ...): a gradient for each result (zeros where none came); returns one for each
--- argument, nil where there is none
---@field backward function
---@field name? string in messages and of the node; "func" where absent

--- An operator of one's own with a backward in Lua, as torch.autograd.Function:
---
---     local cube = moonring.autograd.func {
---       name = "cube",
---       forward = function(ctx, x) ctx:save(x) return x ^ 3 end,
---       backward = function(ctx, g) return g * 3 * ctx:saved() ^ 2 end,
---     }
---
--- `ctx` is one table for both: `ctx:save(...)` keeps tensors for the backward (a write into one of
--- them in between is an error there), `ctx:saved()` gives them back, and any other field is the
--- script's own. The backward runs on the calling thread, inside the backward that needs it; an
--- error in it ends that backward with the error as it was raised. It may be differentiated again,
--- where it is made of operators.
---@param how moonring.FuncOptions
---@return fun(...): moonring.Tensor ...
function autograd.func(how) end

return autograd
