---@meta moonring

--- Moonring's Lua API: `local moonring = require "moonring"`.
---
--- - Ranks, dims, token ids, positions, rows and steps count from 0, as in LibTorch; a Lua list
---   counts from 1.
--- - A name's suffix is its shape: `q_THD` is [tokens, heads, head dimension]; T tokens, D hidden,
---   V vocabulary.
--- - A function accepts at most one table of options, after its other arguments. An unknown key is
---   an error, which names the nearest known key. In tables that Lua code keeps (such as an
---   objective), names that begin with an underscore are free for the script's own data.
--- - A native function refuses surplus arguments; a trailing nil is ignored.
--- - An error is one string: `sft.lua:12: moonring.comm.mesh: INVALID_ARGUMENT: sp=3 does not
---   divide world size 8`. The program prints the script's call stack below it; if the environment
---   has MOONRING_TRACEBACK=1, the stack includes calls inside Moonring.
--- - Every object has `close()` and `tostring`, and refuses any use after it was closed.
--- - A function described as collective must be called by every rank of the group, in the same
---   order.
--- - Reading an unknown name of `moonring` is an error. Other Lua modules are loaded by `require`:
---   `require "moonring.choices.compute"`.
---@class moonring
---@field version string this build's version
---@field null lightuserdata the null of JSON and YAML, a value different from nil: a key can be
---   present and null
---@field required table used as a default value in `moonring.flags`, it makes the key required
---@field system moonring.system
---@field attention moonring.attention
---@field collectives moonring.collectives
---@field comm moonring.comm
---@field mixing moonring.mixing
---@field objectives moonring.objectives
---@field safetensors moonring.safetensors
---@field trace moonring.trace
---@field trainer moonring.trainer
---@field ops table<string, function> all LibTorch operators: `moonring.ops.matmul(x, y)`
---@field cat fun(tensors: moonring.Tensor[], dim: integer?): moonring.Tensor concatenates tensors
---   along a dim (default 0), as torch.cat
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
---@field serve moonring.serve the service of `moonring serve`
local moonring = {}

--- Creates a custom optimizer from its update rule. It can be passed to moonring.run.open, returned
--- by a file that the key `optim` names, or used without a run: `moonring.optimizer { ..
--- }:over(parameters)`. Errors: INVALID_ARGUMENT for an unknown option, with the nearest known
--- name.
---@param rule moonring.OptimizerRule
---@return moonring.OwnOptimizer
function moonring.optimizer(rule) end

--- Runs `fn(...)` and returns its results. When fn ends, even by an error, all tensors created in
--- it are closed, except tensors that fn returns directly (not inside a table) and tensors that
--- `x:keep()` moved out. Scopes nest: a tensor that leaves a scope belongs to the next outer one.
--- The storage of a closed tensor stays alive while C++ references it, for example in the autograd
--- graph.
---@generic T
---@param fn fun(...): T
---@param ... any arguments of fn
---@return T ...
function moonring.scope(fn, ...) end

--- Runs `fn(...)` while autograd does not record operations, and returns its results.
---@generic T
---@param fn fun(...): T
---@param ... any arguments of fn
---@return T ...
function moonring.no_grad(fn, ...) end

--- Creates a tensor from a number, a list of numbers or booleans, or nested lists of equal lengths.
--- The default is fp32 on the CPU, or bool for booleans only. A list with a hole, such as
--- { 1, nil, 3 }, or with other keys is refused.
---
---     local w = moonring.tensor({ { 1, 2 }, { 3, 4 } }, { dtype = "fp64", requires_grad = true })
---@param values table
---@param how? moonring.Dtype | moonring.TensorOptions
---@return moonring.Tensor
function moonring.tensor(values, how) end

--- A tensor of zeros: `moonring.zeros(2, 3)`, `moonring.zeros({ 2, 3 }, { dtype = "int64" })`.
---@param ... integer | integer[] | moonring.TensorOptions sizes, then options
---@return moonring.Tensor
function moonring.zeros(...) end

--- A tensor of ones, with the arguments of `moonring.zeros`.
---@param ... integer | integer[] | moonring.TensorOptions sizes, then options
---@return moonring.Tensor
function moonring.ones(...) end

--- A tensor in which every element is `value`.
---@param sizes integer[]
---@param value number
---@param how? moonring.TensorOptions default dtype "fp32"
---@return moonring.Tensor
function moonring.full(sizes, value, how) end

--- A tensor of the numbers first, first + step, .. below last. A single argument is last, with
--- first = 0. If all arguments are integers, the dtype is int64.
---@param ... number | moonring.TensorOptions first, last, step
---@return moonring.Tensor
function moonring.arange(...) end

--- Uniform random numbers in [0, 1). Each number depends only on the seed and its position in the
--- tensor (lua/moonring/base/creation.lua).
---@param ... integer | integer[] | moonring.RandomOptions sizes, then options
---@return moonring.Tensor
function moonring.rand(...) end

--- Normal random numbers with mean 0 and variance 1. Each depends only on the seed and its
--- position, as in `moonring.rand`.
---@param ... integer | integer[] | moonring.RandomOptions sizes, then options
---@return moonring.Tensor
function moonring.randn(...) end

--- Parses a script's command line of `key=value`, `--key=value` and `--key value` words, and
--- returns the values. A key has the type of its default (number, boolean, else string); a boolean
--- without a value is true. Ends the program with exit code 2 and one message about all words of
--- another form, unknown keys (with the nearest known one), and required keys that are missing.
---
---     local opt = moonring.flags { model = moonring.required, sp = 4 }
---@param defaults table<string, any>
---@param words? string[] default: the script's arguments (`arg`)
---@return table<string, any>
function moonring.flags(defaults, words) end

--- Starts `ranks` processes with the same command line, waits for them, and ends the program with
--- their exit code. Does nothing if this process is already a rank or if the option -n was given.
--- Errors: INVALID_ARGUMENT if the number of ranks is not a multiple of sp.
---@param sp integer at least 1
---@param ranks? integer default sp
---@param restarts? integer how often all ranks are restarted after one of them has failed; if not
---   0, a launcher process also watches a single rank; default 0
---@param experts? integer expert_parallel_size, which must also divide the number of ranks; default
---   1
function moonring.launch(sp, ranks, restarts, experts) end

--- Iterates over training steps and their numbers, from 1: `for step, k in
--- moonring.count(dataset:steps { ... }) do`.
---@param steps moonring.Steps
---@param made? integer number of steps that an earlier run has made; counting continues after them;
---   default 0
---@return fun(): moonring.Step?, integer
function moonring.count(steps, made) end

return moonring
