--- A module of one's own: weights and other modules by name, and a forward made of operators.
--
--   local Probe = moonring.nn.module {
--     layer = moonring.nn.linear(576, 2),
--     scale = moonring.nn.parameter(moonring.ones(1)),
--     forward = function(self, x) return self.layer(x) * self.scale:use() end,
--   }
--   local scores = Probe(x)
--
-- Weights are Parameters, as the native model's: joined to them they learn by the same optimizer,
-- are sharded by ZeRO and saved in checkpoints. Under sequence parallelism a module sees this
-- rank's rows; one that works row by row gives the same numbers for any sp.
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

--- The weight as a part of autograd's graph; where it is sharded all ranks use it in one order.
---@param dtype? moonring.Dtype its own where absent
---@return moonring.Tensor
function Weight:use(dtype) return self.parameter:use(dtype) end

function Weight:__tostring() return tostring(self.parameter) end

---@class moonring.Module
---@operator call(any): any
---@field forward fun(self: moonring.Module, ...): any
local Module = {}
Module.__index = Module

function Module:__call(...) return self:forward(...) end

--- A weight with these first values.
---@param values moonring.Tensor
---@param how? moonring.ParameterOptions
---@return moonring.Weight
function module.parameter(values, how)
  return setmetatable({ parameter = comm.parameter("weight", values, how) }, Weight)
end

--- A module of weights, modules and lists of modules by name, with its `forward`. Other fields are
--- left alone.
---@param fields table<string, any>
---@return moonring.Module
function module.new(fields)
  if type(fields) ~= "table" or type(fields.forward) ~= "function" then
    options.refuse("nn.module", "wanted a table with a function `forward`")
  end
  return setmetatable(fields, Module)
end

local function is_weight(value) return getmetatable(value) == Weight end
local function is_module(value) return getmetatable(value) == Module end

-- Names of fields in one order on every rank: numbers first.
local function sorted_keys(of)
  local keys = {}
  for key in pairs(of) do
    if type(key) == "string" or type(key) == "number" then keys[#keys + 1] = key end
  end
  table.sort(keys, function(a, b)
    if type(a) == type(b) then return a < b end
    return type(a) == "number"
  end)
  return keys
end

-- Calls visit(path, weight) of each weight below.
local function walk(of, prefix, visit)
  for _, key in ipairs(sorted_keys(of)) do
    local value = rawget(of, key)
    local name = type(key) == "number" and tostring(key - 1) or key
    local path = prefix == "" and name or prefix .. "." .. name
    if is_weight(value) then
      visit(path, value)
    elseif is_module(value) or (type(value) == "table" and is_module(value[1])) then
      walk(value, path, visit)
    end
  end
end

-- The same, each weight once.
local function walk_once(of, prefix, visit)
  local seen = {}
  walk(of, prefix, function(path, weight)
    if seen[weight] then return end
    seen[weight] = true
    visit(path, weight)
  end)
end

--- Its weights, each once, as a list that a model's parameters can be joined with. They are named
--- by their place: "probe.layer.weight" with the prefix "probe".
---@param prefix? string none where absent
---@return moonring.Parameters
function Module:parameters(prefix)
  local list = {}
  walk_once(self, prefix or "", function(path, weight)
    weight.parameter:rename(path)
    list[#list + 1] = weight.parameter
  end)
  return comm.parameters(list)
end

--- Its weights by name, whole: copies. Collective over the ranks that shard them.
---@return table<string, moonring.Tensor>
function Module:state()
  local state = {}
  walk(self, "", function(path, weight)
    state[path] = weight.parameter:weight():detach():clone()
  end)
  return state
end

--- Writes weights by name. Errors: INVALID_ARGUMENT, where one is missing, unknown or of another
--- shape; nothing is written then.
---@param state table<string, moonring.Tensor>
function Module:load_state(state)
  local weights = {}
  walk(self, "", function(path, weight)
    local given = state[path]
    if not given then options.refuse("load_state", "there is no '", path, "'") end
    local want = table.concat(weight.parameter:shape(), ", ")
    local came = table.concat(given:shape(), ", ")
    if want ~= came then
      options.refuse("load_state", path, ": wanted shape [", want, "], got [", came, "]")
    end
    weights[path] = weight
  end)
  for path in pairs(state) do
    if not weights[path] then options.refuse("load_state", "there is no weight '", path, "'") end
  end
  walk(self, "", function(path, weight) weight.parameter:copy_(state[path]) end)
end

--- Writes its state into a safetensors file. Where weights are sharded every rank calls it.
---@param path string
---@param how? { write: boolean?, flush: boolean? } write = false: takes part, and writes nothing;
---   flush: to the disk at once; true where absent
function Module:save(path, how)
  how = options.check("save", how, { write = "boolean?", flush = "boolean?" })
  tensor.scope(function()
    local state = self:state()
    if how.write ~= false then safetensors.write(path, state, { flush = how.flush }) end
  end)
end

--- Reads its state from a safetensors file.
---@param path string
function Module:load(path)
  tensor.scope(function() self:load_state(safetensors.read(path)) end)
end

--- How many numbers its weights hold, each weight counted once.
---@return integer
function Module:numel()
  local list = {}
  walk_once(self, "", function(_, weight) list[#list + 1] = weight.parameter end)
  return comm.parameters(list):numel()
end

-- The tree, a line each.
local function draw(of, name, indent, lines)
  lines[#lines + 1] = indent .. (name and "(" .. name .. "): " or "") .. (of._kind or "Module")
  for _, key in ipairs(sorted_keys(of)) do
    local value = rawget(of, key)
    local label = type(key) == "number" and tostring(key - 1) or key
    if is_weight(value) then
      local shape = table.concat(value.parameter:shape(), ", ")
      lines[#lines + 1] = ("%s  %s [%s] %s"):format(indent, label, shape, value.parameter:dtype())
    elseif is_module(value) then
      draw(value, label, indent .. "  ", lines)
    elseif type(value) == "table" and is_module(value[1]) then
      for i, each in ipairs(value) do
        draw(each, ("%s.%d"):format(label, i - 1), indent .. "  ", lines)
      end
    end
  end
  return lines
end

function Module:__tostring() return table.concat(draw(self, nil, "", {}), "\n") end

return module
