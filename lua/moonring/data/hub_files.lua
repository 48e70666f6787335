--- Selects the files of a split in a data set's repository, by the rules of the datasets library:
-- by the `configs` in the header of its card (README.md), otherwise by names of folders and files,
-- otherwise all files. If the selected files have several types, only those of the most frequent
-- type are read.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.hub_files
local hub_files = {}

local SPLITS = { { "train", "training" }, { "validation", "valid", "dev", "val" },
  { "test", "testing", "eval", "evaluation" } }
local KINDS = { json = "json", jsonl = "json", csv = "csv", parquet = "parquet", arrow = "arrow",
  txt = "text" }
-- File types known to the datasets library but not supported here.
for _, ending in ipairs { "tsv", "ndjson", "geoparquet", "gpq", "tar", "xml", "zip", "pdf", "png",
  "jpg", "jpeg", "gif", "bmp", "webp", "tif", "tiff", "ico", "ppm", "mp3", "wav", "flac", "ogg",
  "opus", "m4a", "aiff", "mp4", "mkv", "avi", "mov", "webm", "mpeg", "mpg" } do
  KINDS[ending] = KINDS[ending] or "." .. ending
end
-- Priorities of file name endings that are equally frequent; the highest wins. Among endings
-- without a priority the alphabetically last one wins.
local FAVOURED = { parquet = 4, jsonl = 3, json = 2, csv = 1 }
local IGNORED = { ["README.md"] = true, ["config.json"] = true, ["dataset_info.json"] = true,
  ["dataset_infos.json"] = true, ["dummy_data.zip"] = true, ["dataset_dict.json"] = true }
-- Fields of a card's config that do not change rows.
local HARMLESS = { config_name = true, data_files = true, data_dir = true, default = true,
  description = true, version = true, features = true, drop_labels = true }

local function parts_of(path)
  local parts = {}
  for part in path:gmatch "[^/]+" do parts[#parts + 1] = part end
  return parts
end

-- Converts a glob for one path component to a Lua pattern: *, ? and [..] match no slash.
local function part_pattern(part)
  if part == "*" then return "^[^/]+$" end
  local function outside(text) -- text outside of brackets
    return (text:gsub("[%^%$%(%)%%%.%+%-%[%]]", "%%%0"):gsub("%*", "[^/]*"):gsub("%?", "[^/]"))
  end
  local pattern, at = "", 1
  for begin, class, stop in part:gmatch "()(%[[^%]]+%])()" do
    pattern = pattern .. outside(part:sub(at, begin - 1)) .. class:gsub("^%[!", "[^")
    at = stop
  end
  return "^" .. pattern .. outside(part:sub(at)) .. "$"
end

local match_from
local function match_any(globs, g, parts, p)
  if g == #globs then return p <= #parts end
  for from = p, #parts + 1 do
    if match_from(globs, g + 1, parts, from) then return true end
  end
  return false
end
match_from = function(globs, g, parts, p)
  if g > #globs then return p > #parts end
  if globs[g] == "**" then return match_any(globs, g, parts, p) end
  return p <= #parts and parts[p]:find(part_pattern(globs[g])) ~= nil
    and match_from(globs, g + 1, parts, p + 1)
end

local function count(parts, beginning, last)
  local n = 0
  for i = 1, last do
    if parts[i]:find(beginning) and parts[i]:find "[^.]" then n = n + 1 end
  end
  return n
end

-- The files that match a glob and have a type that the datasets library knows. As in that library,
-- hidden files, and files in folders that begin with __, match only globs that name such
-- components.
local function matching(pattern, files)
  local globs, found = parts_of(pattern), {}
  for _, file in ipairs(files) do
    local parts = parts_of(file)
    local base, known = parts[#parts], false
    for ending in base:gmatch "%.([^.]+)" do known = known or KINDS[ending:lower()] ~= nil end
    if known and (not IGNORED[base] or globs[#globs] == base) and match_from(globs, 1, parts, 1)
      and count(parts, "^%.", #parts) == count(globs, "^%.", #globs)
      and count(parts, "^__", #parts - 1) == count(globs, "^__", #globs - 1) then
      found[#found + 1] = file
    end
  end
  return found
end

local function all_matching(patterns, files)
  local found = {}
  for _, pattern in ipairs(patterns) do
    for _, file in ipairs(matching(pattern, files)) do found[#found + 1] = file end
  end
  return found
end

-- Finds files named data/SPLIT-00000-of-00001.parquet, where SPLIT may be any name.
local SHARD = "[0-9][0-9][0-9][0-9][0-9]"
local function sharded(files)
  local splits, any = {}, false
  local behind = "-" .. SHARD .. "-of-" .. SHARD
  for _, file in ipairs(matching("data/*" .. behind .. "*.*", files)) do
    local split = file:match "^data/(.*)%-%d%d%d%d%d%-of%-%d%d%d%d%d.*%."
    if split then splits[split], any = true, true end
  end
  for split in pairs(splits) do
    splits[split] = matching("data/" .. split .. behind .. "*.*", files)
  end
  return any and splits or nil
end

local IN_FOLDERS = { "**/%s/**", "**/%s[-._ 0-9]*/**", "**/*[-._ 0-9]%s/**",
  "**/*[-._ 0-9]%s[-._ 0-9]*/**" }
local IN_NAMES = { "**/%s[-._ 0-9]*", "**/*[-._ 0-9]%s[-._ 0-9]*" }

local function by_words(forms, files)
  local splits, any = {}, false
  for _, words in ipairs(SPLITS) do
    local patterns = {}
    for _, word in ipairs(words) do
      for _, form in ipairs(forms) do patterns[#patterns + 1] = form:format(word) end
    end
    local found = all_matching(patterns, files)
    if #found > 0 then splits[words[1]], any = found, true end
  end
  return any and splits or nil
end

local function by_names(files)
  return sharded(files) or by_words(IN_FOLDERS, files) or by_words(IN_NAMES, files)
    or { train = matching("**", files) }
end

-- The splits that a config's data_files names: a glob, a list of globs, or a list of { split, path
-- }.
local function by_card(given, files)
  local function list(value) return type(value) == "table" and value or { value } end
  if type(given) == "table" and type(given[1]) == "table" then
    local splits = {}
    for _, each in ipairs(given) do
      splits[tostring(each.split)] = all_matching(list(each.path), files)
    end
    return splits
  end
  return { train = all_matching(list(given), files) }
end

-- The files in a folder, with paths relative to it.
local function below(folder, files)
  local found, prefix = {}, folder:gsub("^%./", ""):gsub("/*$", "") .. "/"
  for _, file in ipairs(files) do
    if file:sub(1, #prefix) == prefix then found[#found + 1] = file:sub(#prefix + 1) end
  end
  return found, prefix
end

-- The config that `subset` names, or the default config; nil if the card has no configs.
local function config_of(card, subset)
  local configs = type(card) == "table" and card.configs
  if type(configs) ~= "table" or #configs == 0 then
    if subset then
      errors.fail("'subset' is '", subset, "', and its card (README.md) names none")
    end
    return nil
  end
  local names, default = {}, nil
  for i, config in ipairs(configs) do
    names[i] = tostring(config.config_name)
    if names[i] == subset then return config end
    if #configs == 1 or names[i] == "default" or config.default == true then
      default = default or config
    end
  end
  if subset or not default then
    errors.fail(subset and "no 'subset' '" .. subset .. "'" or "it has several: expected 'subset'",
      ", one of ", table.concat(names, ", "))
  end
  return default
end

-- Whether one of a file's endings belongs to the file type `kind`.
local function is_of(file, kind)
  for ending in file:match("[^/]+$"):gmatch "%.([^.]+)" do
    if KINDS[ending:lower()] == kind then return true end
  end
  return false
end

-- The files of the most frequent type, which their endings determine, and this type.
local function of_one_kind(files)
  local counts, best, order = {}, nil, nil
  for _, file in ipairs(files) do
    for ending in file:match("[^/]+$"):gmatch "%.([^.]+)" do
      ending = ending:lower()
      if KINDS[ending] then counts[ending] = (counts[ending] or 0) + 1 end
    end
  end
  for ending, times in pairs(counts) do
    local key = ("%09d %d %s"):format(times, FAVOURED[ending] or 0, ending)
    if not order or key > order then best, order = ending, key end
  end
  local kind, kept = best and KINDS[best], {}
  if kind and kind:find "^%." then
    errors.raise("UNIMPLEMENTED", "its files are of kind ", kind, ", such as ", files[1],
      "; json, jsonl, csv, txt, parquet and arrow are read")
  end
  for _, file in ipairs(files) do
    if is_of(file, kind) then kept[#kept + 1] = file end
  end
  return kept, kind
end

--- All splits of a repository with their files.
---@param files string[] files of the repository, sorted
---@param card any the header of README.md; nil if absent
---@param subset? string
---@param folder? string the folder of the data; if set, the card's configs are ignored
---@return table<string, string[]>
function hub_files.splits(files, card, subset, folder)
  local config = not folder and config_of(card, subset) or nil
  for key in pairs(config or {}) do
    if not HARMLESS[key] then
      errors.raise("UNIMPLEMENTED", "its card (README.md) asks for ", tostring(key), ": ",
        system.json_encode(config[key]), ", which is not read")
    end
  end
  local prefix = ""
  folder = folder or config and config.data_dir
  if folder then files, prefix = below(folder, files) end
  local splits = config and config.data_files and by_card(config.data_files, files)
    or by_names(files)
  local kinds = {}
  for split, chosen in pairs(splits) do
    local kept, kind = of_one_kind(chosen)
    for i, file in ipairs(kept) do kept[i] = prefix .. file end
    splits[split] = kept
    if kind then kinds[#kinds + 1] = kind end
  end
  for _, other in ipairs(kinds) do
    if other ~= kinds[1] then
      errors.fail("its splits are of several kinds of files, ", kinds[1], " and ", other)
    end
  end
  return splits
end

--- The files that the `split` of an entry needs, and the rows to select from them. For
--- "validation[:100]" these are the files of that split, and "train[:100]"; "train+test" needs the
--- files of both.
---@param splits table<string, string[]>
---@param wanted string
---@return string[] files
---@return string split
function hub_files.wanted(splits, wanted)
  local names, files, slices, first = {}, {}, {}, nil
  for name in pairs(splits) do names[#names + 1] = name end
  table.sort(names)
  for term in (wanted .. "+"):gmatch "([^+]*)%+" do
    local name, slice = term:match "^%s*([%w_.]+)(.-)%s*$"
    if not name or not splits[name] or #splits[name] == 0 then
      errors.raise("NOT_FOUND", "no split '", name or term, "'; there is ",
        #names > 0 and table.concat(names, ", ") or "no file that could be read")
    end
    first = first or name
    if slice ~= "" then slices[#slices + 1] = "train" .. slice end
    if name ~= first or #files == 0 then
      for _, file in ipairs(splits[name]) do files[#files + 1] = file end
    end
    if #slices > 0 and (name ~= first or slice == "") then
      errors.raise("UNIMPLEMENTED", "'split' is '", wanted, "': expected slices of one split, or "
        .. "several splits whole")
    end
  end
  return files, #slices > 0 and table.concat(slices, "+") or "train"
end

return hub_files
