--- Checks that dataset_info.json describes the data sets that a configuration names, or that they
-- are files, before any of them is read.
local errors = require "moonring.base.errors"
local file_datasets = require "moonring.data.file_datasets"
local hub_datasets = require "moonring.data.hub_datasets"
local system = require "moonring.native.system"

---@class moonring.dataset_names
local dataset_names = {}

-- The entries of a dataset_info.json by name, and the file's path; no entries if it does not exist.
-- Returns nil if the file is on a hub or is not a JSON object; the code that reads the file later
-- reports that error.
local function described(dir)
  local path = dir .. "/dataset_info.json"
  if dir == "ONLINE" or dir:find "^REMOTE:" then return nil, path end
  if not system.exists(path) then return {}, path end
  local text = system.read(path)
  local ok, info = pcall(system.json_decode, text, path)
  local is_list = ok and text:find "^[^{]*%["
  return ok and type(info) == "table" and not is_list and info or nil, path
end

local function refuse(key, name, path, info)
  if file_datasets.is_path(name) then
    errors.raise("NOT_FOUND", key, ": no file ", name, file_datasets.nearest(name), ", neither in ",
      "the working directory nor in dataset_dir, and no data set of that name in ", path)
  elseif not system.exists(path) then
    errors.raise("NOT_FOUND", "dataset_dir: ", path, ": no such file: dataset_dir must hold a "
      .. "dataset_info.json that describes its data sets")
  end
  local known = {}
  for each in pairs(info) do known[#known + 1] = each end
  errors.raise("NOT_FOUND", key, ": ", path, ": no data set '", name, "'",
    system.did_you_mean(name, known), "; there are ", known[1] and table.concat(known, ", ")
    or "none")
end

--- Refuses names in dataset and eval_dataset that are neither described nor files. Adds a note for
--- each file that is read as guessed. Errors: NOT_FOUND, naming the key.
---@param c moonring.Configuration
function dataset_names.check(c)
  if not (c.dataset or c.eval_dataset) then return end
  local dir = hub_datasets.local_dir(c.dataset_dir)
  local info, path = described(dir)
  for _, key in ipairs(info and { "dataset", "eval_dataset" } or {}) do
    local files, notes = file_datasets.find(c, key, dir, info)
    for _, name in ipairs(c[key] or {}) do
      if info[name] == nil and not files[name] then refuse(key, name, path, info) end
    end
    for _, note in ipairs(notes) do c.notes[#c.notes + 1] = note end
  end
end

--- The names on a hub (ORG/NAME) of the training data that comes from there.
---@param c moonring.Configuration
---@return string[]
function dataset_names.on_hub(c)
  if c.dataset_dir == "ONLINE" then return c.dataset or {} end
  local ok, info = pcall(function() return (described(hub_datasets.dir(c))) end)
  local urls = {}
  for _, name in ipairs(c.dataset or {}) do
    local entry = ok and info and info[name]
    local url = type(entry) == "table" and entry.hf_hub_url
    if type(url) == "string" then urls[#urls + 1] = url end
  end
  return urls
end

--- The files of data sets that dataset_info.json does not describe, by name.
---@param c moonring.Configuration
---@param dir string the folder of dataset_info.json
---@param names string[]
---@return table<string, { files: string[], entry: string }>
function dataset_names.files(c, dir, names)
  local info = described(dir)
  if not info then return {} end
  return (file_datasets.find(setmetatable({ dataset = names }, { __index = c }), "dataset", dir,
    info))
end

return dataset_names
