--- Records the files from which the models of a run were read. If such a file, or config.json, has
-- changed, the run cannot be resumed, since its results would not be those of one run.
--
-- A checkpoint records the model's config.json, and fingerprints of all files whose weights a
-- resumed run reads again: those of a base model that is not fully trained, of a reference model,
-- and of adapters that are merged into the base. Weights that are fully trained are in the
-- checkpoint itself and need no fingerprint.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local model = require "moonring.model"
local native = require "moonring.native.model"
local system = require "moonring.native.system"

---@class moonring.origins
local origins = {}

---@class moonring.Origins
---@field config table<string, any> of config.json
---@field files table<string, table<string, string>> by key: fingerprints by file name

-- Keys of config.json that do not affect results.
local IDLE = { "_name_or_path", "_attn_implementation", "architectures", "dtype", "torch_dtype",
  "transformers_version", "use_cache" }

local ADAPTER_FILES = { "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin" }

local function config_of(checkpoint)
  local config = system.json_decode(checkpoint:config_json(), "config.json")
  for _, name in ipairs(IDLE) do config[name] = nil end
  return config
end

local function marks_of(paths)
  local marks = {}
  for _, path in ipairs(paths) do marks[path:match "[^/]*$"] = native.file_mark(path) end
  return marks
end

-- Fingerprints of adapters' files. A key is the adapter's index in the list and the file's name, as
-- "1/adapter_model.safetensors".
local function adapter_marks(folders)
  local marks = {}
  for i, folder in ipairs(folders or {}) do
    for _, name in ipairs(ADAPTER_FILES) do
      local path = folder .. "/" .. name
      if system.exists(path) then marks[i .. "/" .. name] = native.file_mark(path) end
    end
  end
  return marks
end

-- Whether a resumed run reads weights from model_name_or_path, not only from the checkpoint.
local function reads_base(c, objective)
  if c.train_from_scratch then return false end
  return c.finetuning_type ~= "full" or objective.needs_reference and not c.ref_model
end

--- The origins of a run's models, from the current files. Reads parts of these files; called on
--- rank 0.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param objective moonring.Objective
---@return moonring.Origins
function origins.of(c, checkpoint, objective)
  local files = {}
  if reads_base(c, objective) then files.model_name_or_path = marks_of(checkpoint:files()) end
  if c.ref_model and objective.needs_reference then
    files.ref_model = marks_of(model.open(c.ref_model, c):files())
    local adapters = adapter_marks(model.adapters(c.ref_model_adapters, c))
    if next(adapters) then files.ref_model_adapters = adapters end
  end
  local merged = model.adapters(c.adapter_name_or_path, c) or {}
  -- If the last adapter is the one that is trained, its weights are in the checkpoint.
  if adapter_kinds.has(c) and not c.create_new_adapter then table.remove(merged) end
  local adapters = adapter_marks(merged)
  if next(adapters) then files.adapter_name_or_path = adapters end
  return { config = config_of(checkpoint), files = files }
end

local function show(value) return value == nil and "nothing" or system.json_encode(value) end

-- The first few items of a list, as text.
local function some(list)
  table.sort(list)
  local most = 3
  local rest = #list > most and (" and %d more"):format(#list - most) or ""
  return table.concat(list, ", ", 1, math.min(most, #list)) .. rest
end

local function config_changes(before, now)
  local names, changes = {}, {}
  for name in pairs(before) do names[name] = true end
  for name in pairs(now) do names[name] = true end
  for name in pairs(names) do
    local old, new = show(before[name]), show(now[name])
    if old ~= new then changes[#changes + 1] = ("%s was %s, is %s"):format(name, old, new) end
  end
  return changes
end

--- Describes how the models differ from those recorded in a checkpoint, one sentence per
--- difference. Empty for a checkpoint of an older version, which has no record.
---@param before? moonring.Origins
---@param now moonring.Origins
---@return string[]
function origins.changes(before, now)
  local is_known = type(before) == "table" and type(before.config) == "table"
    and type(before.files) == "table"
  if not is_known then return {} end
  local changes = {}
  local config = config_changes(before.config, now.config)
  if #config > 0 then
    changes[1] = "model_name_or_path: config.json has changed: " .. some(config)
  end
  for key, marks in pairs(now.files) do
    local others = {}
    for name, mark in pairs(marks) do
      local old = before.files[key]
      if type(old) == "table" and old[name] ~= mark then others[#others + 1] = name end
    end
    if #others > 0 then
      changes[#changes + 1] = ("%s: the weights in %s are other ones than the run began with")
        :format(key, some(others))
    end
  end
  table.sort(changes)
  return changes
end

return origins
