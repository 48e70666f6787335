--- Finds models that are given by name on a hub. The required files of a repository are looked up
-- in the hub's local cache, and downloaded if they are missing. Other modules of this folder:
-- repository.lua (cache and download), model_files.lua (selection of a model's files),
-- download_progress.lua. For data sets see moonring.data.hub_datasets.
local errors = require "moonring.base.errors"
local model_files = require "moonring.hub.model_files"
local repository = require "moonring.hub.repository"
local system = require "moonring.native.system"

---@class moonring.hub
local hub = {}

--- The keys of a configuration that concern a hub.
---@class moonring.HubOptions
---@field model_revision? string a branch, a tag or a commit; default "main"
---@field hf_hub_token? string default: the environment's (HF_TOKEN)
---@field cache_dir? string default: the environment's (HF_HUB_CACHE)
---@field disable_tqdm? boolean no progress bar

--- Which files of a model's repository are required. "model": all files (of an adapter's
--- repository, the adapter); "config": only config.json; "fresh": config.json and the tokenizer;
--- "tokenizer": only the tokenizer; "adapter": an adapter.
---@alias moonring.HubWant "model" | "config" | "fresh" | "tokenizer" | "adapter"

--- Parses a name on a hub: ORG/NAME; or ORG/NAME:FILE.gguf or ORG/NAME:Q8_0, which selects one of
--- several .gguf files. Returns nil if the path has another form.
---@param path string
---@return string? name
---@return string? part the text after the colon
function hub.name_of(path)
  local name, part = path:match "^([%w_][%w_.-]*/[%w_][%w_.-]*)$", nil
  if not name then name, part = path:match "^([%w_][%w_.-]*/[%w_][%w_.-]*):([%w_.-]+)$" end
  return name, part
end

--- Resolves a path or a name on a hub. If the path exists or is not such a name, returns it
--- unchanged; otherwise returns the folder (or .gguf file) in the hub's cache, downloaded if
--- missing. Errors: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED (disk full), DATA_LOSS,
--- CANCELLED.
---@param path string
---@param want moonring.HubWant
---@param of? moonring.HubOptions
---@return string path
---@return string? name the name, if it came from a hub
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
  if code == "UNAVAILABLE" then code = "NOT_FOUND" end -- known early: no retry
  errors.raise(code, key, ": no folder or file '", path, "'; as a name on a hub: ",
    errors.words(folder))
end

return hub
