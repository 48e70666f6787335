--- Custom modules: named weights and submodules, and a forward of operators.
--
--   local Probe = moonring.nn.module {
--     layer = moonring.nn.linear(576, 2),
--     scale = moonring.nn.parameter(moonring.ones(1)),
--     forward = function(self, x) return self.layer(x) * self.scale:use() end,
--   }
--   local scores = Probe(x)
--
-- Weights are Parameters, like those of the native model. If they are joined with the model's
-- parameters, the same optimizer trains them, ZeRO shards them and checkpoints store them. Under
-- sequence parallelism a module receives this rank's rows. If it works row by row, its results do
-- not depend on sp.
local comm = require "moonring.native.comm"
local options = require "moonring.base.options"
local safetensors = require "moonring.native.safetensors"
local tensor = require "moonring.native.tensor"

---@class moonring.nn.module
local module = {}

--- A weight of a module.
---@class moonring.Weight
---@field parameter moonring.Parameter
local Weight = {}
Weight.__index = Weight

--- The weight as a tensor in autograd's graph. If the weight is sharded, this call is a collective,
--- so all ranks must use their weights in the same order.
---@param dtype? moonring.Dtype default: the weight's
---@return moonring.Tensor
function Weight:use(dtype) return self.parameter:use(dtype) end

function Weight:__tostring() return tostring(self.parameter) end

---@class moonring.Module
---@operator call(any): any
---@field forward fun(self: moonring.Module, ...): any
local Module = {}
Module.__index = Module

function Module:__call(...) return self:forward(...) end

--- Creates a weight with initial values.
---@param values moonring.Tensor
---@param how? moonring.ParameterOptions
---@return moonring.Weight
function module.parameter(values, how)
  return setmetatable({ parameter = comm.parameter("weight", values, how) }, Weight)
end

--- Creates a module from a table of weights, modules, lists of modules, and a `forward`. Other
--- fields are ignored.
---@param fields table<string, any>
---@return moonring.Module
function module.new(fields)
  if type(fields) ~= "table" or type(fields.forward) ~= "function" then
    options.refuse("nn.module", "expected a table with a function `forward`")
  end
  return setmetatable(fields, Module)
end

local function is_weight(value) return getmetatable(value) == Weight end
local function is_module(value) return getmetatable(value) == Module end

-- The name of a module's field in paths: items of a list count from 0. Nil for a key that is
-- neither a string nor a number.
local function name_of(key)
  if type(key) == "number" then return tostring(key - 1) end
  return type(key) == "string" and key or nil
end

-- Calls visit(path, weight) for each weight, recursively.
local function walk(of, prefix, visit)
  for key, value in pairs(of) do
    local name = name_of(key)
    local path = prefix == "" and name or name and prefix .. "." .. name
    if path and is_weight(value) then
      visit(path, value)
    elseif path and is_module(value) or (type(value) == "table" and is_module(value[1])) then
      walk(value, path, visit)
    end
  end
end

-- Calls visit(path, weight) once for each weight, even if several modules share it.
local function walk_once(of, prefix, visit)
  local seen = {}
  walk(of, prefix, function(path, weight)
    if seen[weight] then return end
    seen[weight] = true
    visit(path, weight)
  end)
end

--- Lists the weights, each once; the list can be joined with a model's parameters. A weight is
--- renamed to its path: "probe.layer.weight" if the prefix is "probe".
---@param prefix? string default: none
---@return moonring.Parameters
function Module:parameters(prefix)
  local list = {}
  walk_once(self, prefix or "", function(path, weight)
    weight.parameter:rename(path)
    list[#list + 1] = weight.parameter
  end)
  return comm.parameters(list)
end

--- Copies of the whole weights by name. Collective over the ranks that shard them.
---@return table<string, moonring.Tensor>
function Module:state()
  local state = {}
  walk(self, "", function(path, weight)
    state[path] = weight.parameter:weight():detach():clone()
  end)
  return state
end

--- Sets weights by name. Errors: INVALID_ARGUMENT if a weight is missing, unknown or of another
--- shape; then no weight is changed.
---@param state table<string, moonring.Tensor>
function Module:load_state(state)
  local weights = {}
  walk(self, "", function(path, weight)
    local given = state[path]
    if not given then options.refuse("load_state", "there is no '", path, "'") end
    local want = table.concat(weight.parameter:shape(), ", ")
    local came = table.concat(given:shape(), ", ")
    if want ~= came then
      options.refuse("load_state", path, ": expected shape [", want, "], got [", came, "]")
    end
    weights[path] = weight
  end)
  for path in pairs(state) do
    if not weights[path] then options.refuse("load_state", "there is no weight '", path, "'") end
  end
  walk(self, "", function(path, weight) weight.parameter:copy_(state[path]) end)
end

--- Saves the state to a safetensors file. If weights are sharded, every rank must call it. With
--- write = false a rank only takes part in collectives. `flush`: whether to flush to the disk.
---@param path string
---@param how? { write: boolean?, flush: boolean? } both default to true
function Module:save(path, how)
  how = options.check("save", how, { write = "boolean?", flush = "boolean?" })
  tensor.scope(function()
    local state = self:state()
    if how.write ~= false then safetensors.write(path, state, { flush = how.flush }) end
  end)
end

--- Loads the state from a safetensors file.
---@param path string
function Module:load(path)
  tensor.scope(function() self:load_state(safetensors.read(path)) end)
end

--- Number of elements of all weights, shared ones counted once.
---@return integer
function Module:numel()
  local list = {}
  walk_once(self, "", function(_, weight) list[#list + 1] = weight.parameter end)
  return comm.parameters(list):numel()
end

-- Draws the tree of modules as lines of text.
local function draw(of, name, indent, lines)
  lines[#lines + 1] = indent .. (name and "(" .. name .. "): " or "") .. (of._kind or "Module")
  for key, value in pairs(of) do
    local label = name_of(key)
    if label and is_weight(value) then
      local shape = table.concat(value.parameter:shape(), ", ")
      lines[#lines + 1] = ("%s  %s [%s] %s"):format(indent, label, shape, value.parameter:dtype())
    elseif label and is_module(value) then
      draw(value, label, indent .. "  ", lines)
    elseif label and type(value) == "table" and is_module(value[1]) then
      for i, each in ipairs(value) do
        draw(each, ("%s.%d"):format(label, i - 1), indent .. "  ", lines)
      end
    end
  end
  return lines
end

function Module:__tostring() return table.concat(draw(self, nil, "", {}), "\n") end

return module
