--- The models of a run's folder for the chat: its checkpoints and its final model, and the words
-- with which `moonring chat` loads them as the run trained them.
local checkpoint_folders = require "moonring.base.checkpoint_folders"
local key_values = require "moonring.config.key_values"
local keys = require "moonring.config.keys"
local system = require "moonring.native.system"
local watch_native = require "moonring.native.watch"

---@class moonring.chat_models
local chat_models = {}

---@class moonring.ChatModelFolder
---@field name string "checkpoint-120", or "final"
---@field folder string
---@field kind "model" | "adapter"
---@field modified number when it was written, in seconds since 1970

--- The facts about a run that the chat needs.
---@class moonring.RunChat
---@field models moonring.ChatModelFolder[] the newest first
---@field words string[] key=value
---@field directory? string the run's working directory
---@field system? string default_system
---@field why? string why nothing in this run can be chatted with

local FINAL = "final"

-- The keys of a run that change how its model is loaded and asked.
local KEPT = {}
for _, name in ipairs { "template", "default_system", "enable_thinking", "add_tokens",
  "add_special_tokens", "init_special_tokens", "new_special_tokens_config", "resize_vocab",
  "split_special_tokens", "quantization_bit", "quantization_method",
  "quantization_type", "double_quantization", "bf16", "pure_bf16" } do
  KEPT[name] = true
end

local WHY = { rm = "stage rm trains a reward model: it scores texts and writes none" }

-- A model in a folder; nil if there is none.
local function model_in(folder, name)
  local has_weights = false
  for _, file in ipairs(system.list(folder)) do
    has_weights = has_weights or file:find "%.safetensors$" ~= nil and not file:find "^states%-"
  end
  if not has_weights then return nil end
  for _, each in ipairs { { "adapter_config.json", "adapter" }, { "config.json", "model" } } do
    local state = watch_native.stat(folder .. "/" .. each[1])
    if state then
      return { name = name, folder = folder, kind = each[2], modified = state.modified }
    end
  end
end

local function step_of(each) return tonumber(each.name:match "%d+$") or math.huge end

-- By the time of writing: the final model of an earlier run may still be in the folder.
local function is_newer(a, b)
  local second, other = math.floor(a.modified), math.floor(b.modified)
  if second ~= other then return second > other end
  return step_of(a) > step_of(b)
end

local function models_in(folder)
  local list = { model_in(folder, FINAL) }
  for _, step in ipairs(checkpoint_folders.list(folder)) do
    local name = "checkpoint-" .. step
    list[#list + 1] = model_in(folder .. "/" .. name, name)
  end
  table.sort(list, is_newer)
  return list
end

local function read_mapping(path, decode)
  if not system.exists(path) then return {} end
  local values = decode(system.read(path), path)
  return type(values) == "table" and values or {}
end

-- The words for the keys that differ from their default, in the order of the table of keys.
local function words_of(values)
  local words = {}
  for _, section in ipairs(keys) do
    for _, row in ipairs(section.rows) do
      local value = values[row[1]]
      local differs = value ~= nil and not key_values.same(value, row[3])
      if KEPT[row[1]] and differs then
        words[#words + 1] = row[1] .. "=" .. (type(value) == "string" and value:find "^[%w_./:-]+$"
          and value or system.json_encode(value))
      end
    end
  end
  return words
end

--- The models in a run's folder. Errors: INVALID_ARGUMENT for a malformed file.
---@param folder string
---@return moonring.RunChat
function chat_models.of(folder)
  local values = read_mapping(folder .. "/training_args.yaml", system.yaml_decode)
  local why, models = WHY[values.stage], {}
  if not why then
    models = models_in(folder)
    if #models == 0 then why = "no checkpoint and no model has been saved yet" end
  end
  local directory = read_mapping(folder .. "/run_state.json", system.json_decode).directory
  local default = values.default_system
  return { models = models, words = words_of(values), why = why,
    directory = type(directory) == "string" and system.is_folder(directory) and directory or nil,
    system = type(default) == "string" and default or nil }
end

return chat_models
