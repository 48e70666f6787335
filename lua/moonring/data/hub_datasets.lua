--- Data sets on a hub. A data set is on a hub if its entry in dataset_info.json has hf_hub_url
-- (with subset, folder and split), or if dataset_dir is ONLINE. dataset_info.json itself is on a
-- hub if dataset_dir is REMOTE:ORG/NAME. The files of a split are downloaded into the hub's cache
-- and then read like local files.
local errors = require "moonring.base.errors"
local hub_files = require "moonring.data.hub_files"
local repository = require "moonring.hub.repository"
local system = require "moonring.native.system"

---@class moonring.hub_datasets
local hub_datasets = {}

local function fail(why, ...)
  local code = errors.code(why) or "INVALID_ARGUMENT"
  if code == "UNAVAILABLE" then code = "NOT_FOUND" end
  errors.raise(code, table.concat { ... }, errors.words(why))
end

-- Parses the YAML header of a data set's card, which is between the first two lines of ---.
local function header(text)
  local yaml = text:match "^%-%-%-\r?\n(.-)\r?\n%-%-%-\r?\n" or text:match
    "^%-%-%-\r?\n(.-)\r?\n%-%-%-$"
  return yaml and (system.yaml_decode(yaml, "README.md")) or nil
end

-- Selects the files of a repository that an entry of dataset_info.json needs.
local function choose(name, entry, files, read)
  local has = {}
  for _, file in ipairs(files) do has[file] = true end
  local script = (name:match "[^/]+$") .. ".py"
  if has[script] then
    errors.raise("UNIMPLEMENTED", "it is a program (", script, "), and programs of a data set are "
      .. "not run: save its rows to a file, then describe that with 'file_name'")
  end
  local card
  if has["README.md"] then
    local text = read "README.md"
    if not text then return { files = { "README.md" }, again = true } end
    card = header(text)
  end
  local function given(key) return entry[key] ~= system.null and entry[key] or nil end
  local splits = hub_files.splits(files, card, given "subset", given "folder")
  local wanted, split = hub_files.wanted(splits, given "split" or "train")
  return { files = wanted, split = split }
end

local function fetch_one(url, entry, c)
  local folder, chosen = repository.checkout { kind = "dataset", name = url, revision = "main",
    of = c, choose = function(files, read) return choose(url, entry, files, read) end }
  local paths = {}
  for i, file in ipairs(chosen.files) do paths[i] = folder .. "/" .. file end
  return { files = paths, split = chosen.split }
end

-- Downloads a repository's dataset_info.json and returns its folder.
local function remote_dir(name, c)
  return (repository.checkout { kind = "dataset", name = name, revision = "main", of = c,
    choose = function() return { files = { "dataset_info.json" } } end })
end

--- Whether dataset_info.json comes from a hub: dataset_dir is REMOTE:ORG/NAME.
---@param c { dataset_dir: string }
---@return boolean
function hub_datasets.is_remote(c) return c.dataset_dir:find "^REMOTE:." ~= nil end

--- A value of dataset_dir with builtin:NAME replaced by the folder of that name.
---@param dir string
---@return string
function hub_datasets.local_dir(dir)
  local builtin = dir:match "^builtin:(.+)$"
  return builtin and system.builtin(builtin) or dir
end

--- The folder with dataset_info.json: dataset_dir, or the downloaded folder of REMOTE:ORG/NAME.
---@param c moonring.Configuration | { dataset_dir: string }
---@return string
function hub_datasets.dir(c)
  local name = c.dataset_dir:match "^REMOTE:(.+)$"
  if not name then return hub_datasets.local_dir(c.dataset_dir) end
  local ok, folder = pcall(remote_dir, name, c)
  if not ok then fail(folder, "dataset_dir: ", c.dataset_dir, ": ") end
  return folder
end

--- Downloads the named data sets that are on a hub, unless they are cached. Errors: those of
--- moonring.hub.locate; UNIMPLEMENTED for data sets with a loading script or an unsupported file
--- type.
---@param dir string the result of `dir`
---@param names? string[]
---@param c moonring.HubOptions
---@return table<string, { files: string[], split: string }>
function hub_datasets.fetch(dir, names, c)
  local fetched, info = {}, {}
  local path = dir .. "/dataset_info.json"
  if dir ~= "ONLINE" then
    if not names or not system.exists(path) then return fetched end
    local ok, parsed = pcall(system.json_decode, system.read(path), path)
    if not ok or type(parsed) ~= "table" then return fetched end -- reported when read next
    info = parsed
  end
  for _, name in ipairs(names or {}) do
    local entry = dir == "ONLINE" and { hf_hub_url = name } or info[name]
    local url = type(entry) == "table" and entry.hf_hub_url
    if type(url) == "string" then
      local ok, files = pcall(fetch_one, url, entry, c)
      if not ok then fail(files, path, ": data set '", name, "': hf_hub_url '", url, "': ") end
      fetched[name] = files
    end
  end
  return fetched
end

return hub_datasets
