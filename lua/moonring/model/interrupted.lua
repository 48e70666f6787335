--- Recognizes the output_dir of an interrupted run where a model is expected: it has folders
-- checkpoint-N, and no model of its own. The error names the newest complete one.
local checkpoint_folders = require "moonring.base.checkpoint_folders"
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.interrupted
local interrupted = {}

-- Whether a folder has a model, an adapter, or a tokenizer if only that is wanted.
local function has_own(folder, want)
  for _, name in ipairs(system.list(folder)) do
    if name == "config.json" or name == "adapter_config.json" or name:find "%.gguf$"
      or want == "tokenizer" and (name:find "^tokenizer[._]" or name:find "^vocab%.") then
      return true
    end
  end
  return false
end

--- The newest complete checkpoint in a folder without a model of its own; nil if there is none.
--- A manifest is a checkpoint's last file, so a folder that has one is complete.
---@param folder string
---@param want? moonring.HubWant
---@return string? checkpoint
---@return boolean? is_adapter it has an adapter, not a whole model
function interrupted.checkpoint(folder, want)
  local allowed, is_folder = pcall(system.is_folder, folder) -- not outside of a sandbox's roots
  if not allowed or not is_folder or has_own(folder, want) then return nil end
  folder = folder:gsub("(.)/+$", "%1")
  for _, step in ipairs(checkpoint_folders.list(folder)) do
    local path = folder .. "/checkpoint-" .. step
    local function has(name) return system.exists(path .. "/" .. name) end
    if has "manifest.json" then
      if has "config.json" then return path, false end
      if has "adapter_config.json" then return path, true end
    end
  end
end

-- The keys that name a checkpoint, instead of `key`.
local function keys_of(checkpoint, is_adapter, key)
  if not is_adapter then return "model_name_or_path=" .. checkpoint end
  if key == "adapter_name_or_path" then return key .. "=" .. checkpoint end
  local file = checkpoint .. "/adapter_config.json"
  local ok, settings = pcall(function() return system.json_decode(system.read(file), file) end)
  local base = ok and type(settings) == "table" and settings.base_model_name_or_path
  return ("model_name_or_path=%s adapter_name_or_path=%s"):format(type(base) == "string" and base
    or "BASE", checkpoint)
end

--- Refuses the output_dir of an interrupted run, and offers its newest complete checkpoint. Errors:
--- NOT_FOUND.
---@param folder string
---@param want? moonring.HubWant
---@param key? string the key that names the folder; absent: it is a command's argument
---@param command? string "moonring chat"
function interrupted.refuse(folder, want, key, command)
  local checkpoint, is_adapter = interrupted.checkpoint(folder, want)
  if not checkpoint then return end
  local offer = key and keys_of(checkpoint, is_adapter, key)
    or (command and command .. " " or "") .. checkpoint
  errors.raise("NOT_FOUND", key and key .. ": " or "", folder, ": no model here: a run in this "
    .. "folder was interrupted; its newest complete checkpoint is given by ", offer)
end

return interrupted
