--- Models by their names on a hub: what of a repository is wanted is looked for in the hub's cache
-- on this machine, and downloaded into it where it is not there. The rest of the room:
-- repository.lua (the cache, and who downloads), model_files.lua (which files a model is), told.lua
-- (what is said meanwhile). Data sets: moonring.data.hub_datasets.
local errors = require "moonring.base.errors"
local model_files = require "moonring.hub.model_files"
local repository = require "moonring.hub.repository"
local system = require "moonring.native.system"

---@class moonring.hub
local hub = {}

--- What of a configuration is about a hub.
---@class moonring.HubOptions
---@field model_revision? string a branch, a tag or a commit; "main" where absent
---@field hf_hub_token? string the environment's (HF_TOKEN) where absent
---@field cache_dir? string the environment's (HF_HUB_CACHE) where absent
---@field disable_tqdm? boolean no bar

--- What of a model's repository is wanted: all of it (of an adapter's: the adapter), config.json
--- alone, config.json and the tokenizer, the tokenizer alone, an adapter.
---@alias moonring.HubWant "model" | "config" | "fresh" | "tokenizer" | "adapter"

--- The repository that a path names where it is no path: ORG/NAME, or of a .gguf file of several
--- ORG/NAME:FILE.gguf or ORG/NAME:Q8_0. Nil where it has another form.
---@param path string
---@return string? name
---@return string? part what stands behind the colon
function hub.name_of(path)
  local name, part = path:match "^([%w_][%w_.-]*/[%w_][%w_.-]*)$", nil
  if not name then name, part = path:match "^([%w_][%w_.-]*/[%w_][%w_.-]*):([%w_.-]+)$" end
  return name, part
end

--- Where a model lies: the path itself where something is there, or where it is no name; else the
--- folder (or the .gguf file) in the hub's cache, downloaded where it was not there. Errors:
--- NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED (a full disk), DATA_LOSS, CANCELLED.
---@param path string
---@param want moonring.HubWant
---@param of? moonring.HubOptions
---@return string path
---@return string? name where it came from a hub
function hub.locate(path, want, of)
  local name, part = hub.name_of(path)
  if not name or system.exists(path) then return path end
  of = of or {}
  local ok, folder, chosen = pcall(repository.checkout, { kind = "model", name = name,
    revision = of.model_revision or "main", of = of,
    choose = function(files, read) return model_files.choose(want, part, files, read) end })
  if ok then return chosen.main and folder .. "/" .. chosen.main or folder, name end
  local key = want == "adapter" and "adapter_name_or_path" or "model_name_or_path"
  local code = errors.code(folder) or "INVALID_ARGUMENT"
  if code == "UNAVAILABLE" then code = "NOT_FOUND" end -- it can be known before the first step
  errors.raise(code, key, ": no folder or file '", path, "'; as a name on a hub: ",
    errors.words(folder))
end

return hub
