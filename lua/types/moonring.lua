---@meta moonring

--- Moonring, as scripts see it: `local moonring = require "moonring"`.
---
--- - Ranks, dims, token ids, positions, rows and steps count from 0, as in LibTorch; a Lua list
---   counts from 1.
--- - A name's suffix is its shape: `q_THD` is [tokens, heads, head width]; T tokens, D hidden, V
---   vocabulary.
--- - A function takes at most one table of options, after its other arguments. A key that it does
---   not know is an error, with the nearest known one; of tables that Lua keeps (an objective)
---   names that begin with an underscore are the script's own.
--- - A bound function refuses arguments beyond those that it takes; nil at the end is no argument.
--- - An error is one string: `sft.lua:12: moonring.comm.mesh: INVALID_ARGUMENT: sp=3 does not
---   divide world size 8`. The host shows the calls of the script below it; MOONRING_TRACEBACK=1 in
---   the environment shows Moonring's own too.
--- - Every object has `close()`, prints itself, and refuses any use once it is closed.
--- - What is said to be collective must be called by every rank of the group, in the same order.
--- - A name that `moonring` lacks is an error. What else a room of Lua modules has is required by
---   its name: `require "moonring.choices.compute"`.
---@class moonring
---@field version string this build's version
--- JSON's and YAML's null: a value that is not nil, so that a key can be there and null
---@field null lightuserdata
---@field required table a default of `moonring.flags`: the key must be given
---@field system moonring.system
---@field attention moonring.attention
---@field comm moonring.comm
---@field mixing moonring.mixing
---@field objectives moonring.objectives
---@field safetensors moonring.safetensors
---@field trace moonring.trace
---@field trainer moonring.trainer
--- every operator of LibTorch: `moonring.ops.matmul(x, y)`
---@field ops table<string, function>
--- LibTorch's cat: tensors one after another along a dim (0 where none is given)
---@field cat fun(tensors: moonring.Tensor[], dim: integer?): moonring.Tensor
---@field operators moonring.operators
---@field autograd moonring.autograd
---@field nn moonring.nn
---@field config moonring.config
---@field terminal moonring.terminal
---@field hub moonring.hub
---@field model moonring.model
---@field policy moonring.policy
---@field data moonring.data
---@field run moonring.run
---@field engine moonring.engine
---@field masks moonring.masks
---@field metrics moonring.metrics
---@field rewards moonring.rewards
---@field plan moonring.plan
---@field report moonring.report
local moonring = {}

--- An optimizer of a script's own, by a rule; for moonring.run.open, for a file that the key
--- `optim` names, or by itself: `moonring.optimizer { .. }:over(parameters)`. Errors:
--- INVALID_ARGUMENT, with the nearest name, for an option that there is not.
---@param rule moonring.OptimizerRule
---@return moonring.OwnOptimizer
function moonring.optimizer(rule) end

--- Runs `fn(...)` and returns what it returns. Every tensor made inside is let go at its end,
--- however it ends, but for those that fn returns by themselves (not inside a table) or that
--- `x:keep()` moved out. Scopes nest: what leaves one belongs to the next. Storage lives while C++
--- (autograd's graph, say) holds it.
---@generic T
---@param fn fun(...): T
---@param ... any what fn takes
---@return T ...
function moonring.scope(fn, ...) end

--- Runs `fn(...)` without recording what backward would need, and returns what it returns.
---@generic T
---@param fn fun(...): T
---@param ... any what fn takes
---@return T ...
function moonring.no_grad(fn, ...) end

--- A tensor from a number, a list of numbers or booleans, or equally long lists of them to any
--- depth; fp32 on the CPU where nothing else is asked for.
---
---     local w = moonring.tensor({ { 1, 2 }, { 3, 4 } }, { dtype = "fp64", requires_grad = true })
---@param values table
---@param how? moonring.Dtype | moonring.TensorOptions
---@return moonring.Tensor
function moonring.tensor(values, how) end

--- Zeros: `moonring.zeros(2, 3)`, `moonring.zeros({ 2, 3 }, { dtype = "int64" })`.
---@param ... integer | integer[] | moonring.TensorOptions sizes, then options
---@return moonring.Tensor
function moonring.zeros(...) end

--- Ones, as `moonring.zeros`.
---@param ... integer | integer[] | moonring.TensorOptions sizes, then options
---@return moonring.Tensor
function moonring.ones(...) end

--- One value everywhere.
---@param sizes integer[]
---@param value number
---@param how? moonring.TensorOptions "fp32" where no dtype is given
---@return moonring.Tensor
function moonring.full(sizes, value, how) end

--- first, first + step, .. below last; first is 0 where one number is given. Whole numbers are
--- int64.
---@param ... number | moonring.TensorOptions first, last, step
---@return moonring.Tensor
function moonring.arange(...) end

--- Uniform in [0, 1): a function of the seed and of the place alone (creation.lua).
---@param ... integer | integer[] | moonring.RandomOptions sizes, then options
---@return moonring.Tensor
function moonring.rand(...) end

--- Normal with mean 0 and variance 1, as `moonring.rand`.
---@param ... integer | integer[] | moonring.RandomOptions sizes, then options
---@return moonring.Tensor
function moonring.randn(...) end

--- The options of a script: reads `key=value` and `--key=value` words. A default's type is the
--- key's type (a number, a boolean, else a string). Refuses a word that is no key=value, an unknown
--- key (with the nearest) and a required one that is not given, with exit code 2.
---
---     local opt = moonring.flags { model = moonring.required, sp = 4 }
---@param defaults table<string, any>
---@param words? string[] the script's arguments (`arg`) where absent
---@return table<string, any>
function moonring.flags(defaults, words) end

--- Starts `ranks` ranks of this very command where this process is not one already and -n did not
--- say how many; then this process only waits for them and ends with their exit code. Else it does
--- nothing. Errors: INVALID_ARGUMENT where the ranks that there are, or are asked for, are no
--- multiple of sp.
---@param sp integer at least 1
---@param ranks? integer sp where absent
---@param restarts? integer how often they are started again after one has failed; then a single
---   rank has a launcher too; 0 where absent
---@param experts? integer expert_parallel_size, which is to divide them too; 1 where absent
function moonring.launch(sp, ranks, restarts, experts) end

--- Steps with their number from 1: `for step, k in moonring.count(dataset:steps { ... }) do`.
---@param steps moonring.Steps
---@param made? integer steps behind them; 0 where absent
---@return fun(): moonring.Step?, integer
function moonring.count(steps, made) end

return moonring
