--- Checks that dataset_info.json describes the data sets that a configuration names, before any of
-- them is read.
local errors = require "moonring.base.errors"
local hub_datasets = require "moonring.data.hub_datasets"
local system = require "moonring.native.system"

---@class moonring.dataset_names
local dataset_names = {}

-- The entries of a dataset_info.json by name, and the file's path. Returns nil if the file is on a
-- hub or is not a JSON object; the code that reads the file later reports that error.
local function described(dir)
  local path = dir .. "/dataset_info.json"
  if dir == "ONLINE" or dir:find "^REMOTE:" then return nil end
  if not system.exists(path) then
    errors.raise("NOT_FOUND", "dataset_dir: ", path, ": no such file: dataset_dir must hold a "
      .. "dataset_info.json that describes its data sets")
  end
  local text = system.read(path)
  local ok, info = pcall(system.json_decode, text, path)
  local is_list = ok and text:find "^[^{]*%["
  return ok and type(info) == "table" and not is_list and info or nil, path
end

--- Refuses unknown names in dataset and eval_dataset. Errors: NOT_FOUND, naming the key.
---@param c moonring.Configuration
function dataset_names.check(c)
  if not (c.dataset or c.eval_dataset) then return end
  local info, path = described(hub_datasets.local_dir(c.dataset_dir))
  local known = {}
  for name in pairs(info or {}) do known[#known + 1] = name end
  table.sort(known)
  for _, key in ipairs(info and { "dataset", "eval_dataset" } or {}) do
    for _, name in ipairs(c[key] or {}) do
      if info[name] == nil then
        errors.raise("NOT_FOUND", key, ": ", path, ": no data set '", name, "'",
          system.did_you_mean(name, known), "; there are ",
          known[1] and table.concat(known, ", ") or "none")
      end
    end
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

return dataset_names
