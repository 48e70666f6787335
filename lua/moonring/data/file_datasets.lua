--- Data sets that are given as files: names in dataset and eval_dataset that dataset_info.json does
-- not describe, and that are the path of a file or of a folder of files. How to read them is
-- guessed from their first rows (column_guess.lua).
local column_guess = require "moonring.data.column_guess"
local errors = require "moonring.base.errors"
local native = require "moonring.native.source"
local stages = require "moonring.choices.stages"
local system = require "moonring.native.system"

---@class moonring.file_datasets
local file_datasets = {}

local ENDINGS = { json = true, jsonl = true, csv = true, txt = true, parquet = true, arrow = true }
local FEW = 100 -- rows that are looked at

local function is_data(path)
  local ending = path:gsub("%.gz$", ""):gsub("%.zst$", ""):match "%.(%w+)$"
  return ending ~= nil and ENDINGS[ending:lower()] == true
end

-- The files of a folder, sorted as the reader sorts them.
local function files_in(folder)
  local files = {}
  for _, name in ipairs(system.list(folder)) do
    if is_data(name) and not name:find "^%." then files[#files + 1] = folder .. "/" .. name end
  end
  table.sort(files)
  return files
end

--- Whether a name has the form of a data file's path.
---@param name string
---@return boolean
function file_datasets.is_path(name) return is_data(name) end

--- A suggestion for the path of a file that does not exist.
---@param name string
---@return string
function file_datasets.nearest(name)
  local folder, file = name:match "^(.*/)([^/]*)$"
  folder, file = folder or "./", file or name
  return system.is_folder(folder) and system.did_you_mean(file, system.list(folder)) or ""
end

--- The files that a name stands for: a path relative to the working directory or to `dir`, of a
--- file or of a folder of files. nil if there are none.
---@param dir string dataset_dir
---@param name string
---@return string[]? files
---@return string? path
function file_datasets.locate(dir, name)
  for _, path in ipairs { name, dir .. "/" .. name } do
    local files = system.is_folder(path) and files_in(path)
      or is_data(path) and system.exists(path) and { path } or {}
    if #files > 0 then return files, path end
  end
end

local function first_rows(files)
  local source, rows = native.rows(files), {}
  for i = 1, FEW do
    local row = source:next()
    if row == nil then break end
    if type(row) == "table" then rows[i] = row end
  end
  return rows
end

-- An entry of dataset_info.json for the user to complete.
local function example(path, rows, stage)
  local stem = (path:match "[^/]+$"):match "^(.-)%.[%w.]+$" or path:match "[^/]+$"
  local entry = system.json_encode(column_guess.example(rows, stage))
  return ('name it dataset=%s and describe it in dataset_info.json: {"%s": {"file_name": %s, %s}')
    :format(stem, stem, system.json_encode(system.absolute(path)), entry:sub(2))
end

local function refuse(key, name, path, rows, c, expected)
  local names = {}
  for column in pairs(column_guess.kinds(rows)) do names[#names + 1] = column end
  errors.fail(key, ": ", name, ": no dataset_info.json describes it, and its columns (",
    names[1] and table.concat(names, ", ") or "none", ") do not show how stage ", c.stage,
    " reads it; expected ", expected, "; else ", example(path, rows, stages.of(c).reads))
end

--- How to read the data sets that dataset_info.json does not describe, in the form of
--- hub_datasets.fetch's result. Errors: INVALID_ARGUMENT, naming the key and the columns, if that
--- cannot be guessed.
---@param c moonring.Configuration
---@param key string "dataset" or "eval_dataset"
---@param dir string
---@param described table<string, any> entries of dataset_info.json
---@return table<string, { files: string[], entry: string }> by name
---@return string[] notes lines for the log
function file_datasets.find(c, key, dir, described)
  local found, notes, stage = {}, {}, stages.of(c).reads
  for _, name in ipairs(c[key] or {}) do
    local files, path
    if described[name] == nil then files, path = file_datasets.locate(dir, name) end
    if files then
      local rows = errors.of_key(key, first_rows, files)
      local entry, expected = column_guess.entry(rows, stage)
      if not entry then refuse(key, name, path, rows, c, expected) end
      found[name] = { files = files, entry = system.json_encode(entry) }
      notes[#notes + 1] = ("%s: %s: no dataset_info.json describes it; read as %s (columns %s)")
        :format(key, path, entry.formatting, column_guess.names(entry))
    end
  end
  return found, notes
end

return file_datasets
