--- `moonring.nn`: custom modules, such as a head, a probe, an adapter or a small model, trained
-- together with the native model or instead of it. See module.lua and layers.lua.
local layers = require "moonring.nn.layers"
local module = require "moonring.nn.module"

---@class moonring.nn
---@field module fun(fields: table<string, any>): moonring.Module
---@field parameter fun(values: moonring.Tensor, how: moonring.ParameterOptions?): moonring.Weight
--- `linear`: fun(inputs: integer, outputs: integer, how: moonring.LinearOptions?)
---@field linear fun(...): moonring.Module
--- `embedding`: fun(count: integer, width: integer, how: moonring.LayerOptions?)
---@field embedding fun(...): moonring.Module
---@field layer_norm fun(width: integer, how: moonring.NormOptions?): moonring.Module
---@field rms_norm fun(width: integer, how: moonring.NormOptions?): moonring.Module
---@field mlp fun(width: integer, inner: integer, how: moonring.LayerOptions?): moonring.Module
--- `lora`: fun(base: moonring.Module, inputs: integer, outputs: integer, how:
--- moonring.LoraOptions?)
---@field lora fun(...): moonring.Module
---@field sequential fun(list: (moonring.Module | function)[]): moonring.Module
local nn = {}
for name, f in pairs(layers) do nn[name] = f end
nn.module, nn.parameter = module.new, module.parameter

return nn
