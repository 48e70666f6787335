--- The base models of a service, by name: the model of the command line, and base_models. Each is
-- frozen and loaded once; adapters are made over it.
local chat = require "moonring.run.chat"
local errors = require "moonring.base.errors"
local packing = require "moonring.model.packing"
local policy = require "moonring.model.policy"
local system = require "moonring.native.system"
local vocabulary = require "moonring.data.vocabulary"

---@class moonring.serve.bases
local bases = {}

--- A base model, loaded.
---@class moonring.serve.Base
---@field name string as in the facts that clients read
---@field config moonring.Configuration
---@field checkpoint moonring.Checkpoint
---@field model moonring.Model frozen
---@field tokenizer? moonring.Tokenizer nil if the model has no files of one
---@field no_tokenizer? any the error of loading the tokenizer
---@field notes string[] lines for the terminal
local Base = {}
Base.__index = Base

---@class moonring.serve.Bases
---@field list { name: string, names: string[], config: moonring.Configuration }[]
---@field opened table<string, moonring.serve.Base> by name
local Bases = {}
Bases.__index = Bases

--- The tokenizer. Errors: if the model has none, the error of loading it.
---@return moonring.Tokenizer
function Base:words()
  return self.tokenizer or error(self.no_tokenizer, 0)
end

--- Whether models can be trained over this base.
---@return boolean
function Base:trainable() return self.model:base() == nil end

--- A further copy of the base all of whose weights are trained.
---@return moonring.Model
function Base:whole()
  if packing.of(self.config) then
    errors.fail("rank 0 (all weights): the service has ", self.name, " with packed weights, which "
      .. "are frozen; train an adapter (rank 1 or more), or start it without ",
      self.config.quantization_bit and "quantization_bit" or "quantization_method")
  end
  return policy.whole(self.config, self.checkpoint)
end

local function open(entry)
  local c = entry.config
  local checkpoint, notes = policy.open(c, false)
  local tokenizer, no_tokenizer = vocabulary.find(c, checkpoint)
  return setmetatable({ name = entry.name, config = c, checkpoint = checkpoint, notes = notes,
    tokenizer = tokenizer, no_tokenizer = no_tokenizer,
    model = policy.frozen(c, checkpoint) }, Base)
end

local function last_name(path) return (path:gsub("/+$", ""):match "([^/]+)$") end

-- The names by which clients may call a model: as it was given, its absolute path, its last name.
local function names_of(path)
  local names = { path }
  for _, name in ipairs { system.exists(path) and system.absolute(path) or path,
    last_name(path) } do
    if name ~= path and name ~= names[2] then names[#names + 1] = name end
  end
  return names
end

-- The configuration of one of base_models: that of the service, for another model.
local function config_of(c, path)
  local other = chat.configuration(path, {})
  local own = { model_name_or_path = other.model_name_or_path,
    adapter_name_or_path = other.adapter_name_or_path, notes = {} }
  return setmetatable(own, { __index = function(_, key)
    return key ~= "adapter_name_or_path" and c[key] or nil
  end })
end

--- The base models of a configuration. Opens only their headers.
---@param c moonring.Configuration of moonring.serve.settings
---@return moonring.serve.Bases
function bases.new(c)
  local path = c.model_name_or_path
  local adapters = c.adapter_name_or_path
  local shown = adapters and adapters[#adapters] or path -- clients ask for the adapter by its name
  local list = { { name = shown, names = names_of(shown), config = c } }
  for _, each in ipairs(c.further_models) do
    list[#list + 1] = { name = each.name, names = { each.name }, config = config_of(c, each.path) }
  end
  return setmetatable({ list = list, opened = {} }, Bases)
end

--- The names of all base models, each first under the name that clients are shown.
---@return string[]
function Bases:names()
  local names = {}
  for _, entry in ipairs(self.list) do
    for _, name in ipairs(entry.names) do names[#names + 1] = name end
  end
  return names
end

-- The entry of a name; nil: there is none.
local function find(self, name)
  for _, entry in ipairs(self.list) do
    for _, each in ipairs(entry.names) do
      if each == name then return entry end
    end
  end
end

--- Whether a name is one of a base model.
---@param name string
---@return boolean
function Bases:has(name) return find(self, name) ~= nil end

--- The base model of a name, loaded at the first call. Errors: NOT_FOUND, with the nearest name.
---@param name string
---@return moonring.serve.Base
function Bases:open(name)
  local entry = find(self, name)
  if not entry then
    local names = self:names()
    errors.raise("NOT_FOUND", "base_model: no model '", name, "'",
      system.did_you_mean(name, names), "; models: ", table.concat(names, ", "))
  end
  if not self.opened[entry.name] then self.opened[entry.name] = open(entry) end
  return self.opened[entry.name]
end

return bases
