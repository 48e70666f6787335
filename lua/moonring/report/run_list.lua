--- The runs below the paths of `moonring watch`, with a short description of each. A path is the
-- folder of a run, a folder of runs, or does not exist yet.
local errors = require "moonring.base.errors"
local run_entry = require "moonring.report.run_entry"
local run_files = require "moonring.report.run_files"
local system = require "moonring.native.system"
local watch_native = require "moonring.native.watch"

---@class moonring.run_list
local run_list = {}

---@class moonring.RunList
---@field paths string[]
---@field runs moonring.ListedRun[] the newest first
---@field text string the runs as JSON, for comparisons
---@field known table<string, { mark: string, run: moonring.ListedRun }> by folder
---@field searched number when the folders were last searched, by system.clock
---@field pause number least seconds between two searches
local RunList = {}
RunList.__index = RunList

local DEPTH = 3    -- levels below a path in which runs are found: saves/MODEL/METHOD/RUN
local PAUSE = 2    -- least seconds between two searches
local SHARE = 20   -- a pause is at least this many times a search's seconds

local function base_name(path) return system.absolute(path):match "([^/]+)/*$" or path end

local function parent_of(path) return system.absolute(path):match "^(.*)/[^/]+/*$" or "" end

-- Refuses a path that is a file, and one that could never be read.
local function check(path)
  local state, above = watch_native.stat(path), path
  while not state do
    above = parent_of(above)
    state = watch_native.stat(above == "" and "/" or above)
  end
  if state.kind ~= "folder" then
    errors.fail(above, ": a file, expected the folder of a run, or of runs")
  end
  system.list(above == "" and "/" or above)
end

--- Refuses paths that can never be the folder of a run. Errors: INVALID_ARGUMENT for a file,
--- PERMISSION_DENIED for a folder that cannot be read.
---@param paths string[] they need not exist yet
---@return moonring.RunList
function run_list.open(paths)
  local places = {}
  for i, path in ipairs(paths) do
    places[i] = path:gsub("(.)/+$", "%1")
    check(places[i])
  end
  return setmetatable({ paths = places, runs = {}, text = "[]", known = {}, searched = -math.huge,
    pause = PAUSE }, RunList)
end

-- Adds the runs in a folder, at most `depth` levels below it, to `found`. Does not search the
-- folders of runs.
local function search(folder, name, depth, found)
  local ok, names = pcall(system.list, folder)
  if not ok then return end -- it was removed, or belongs to another user
  if run_files.is_run(names) then
    found[#found + 1] = { folder = folder, name = name }
  elseif depth > 0 then
    for _, each in ipairs(names) do
      local path = folder .. "/" .. each
      local is_hidden = each:find "^%." or each:find "^checkpoint%-%d+"
      if not is_hidden and system.is_folder(path) then
        search(path, name and name .. "/" .. each or each, depth - 1, found)
      end
    end
  end
end

-- Gives runs that would have the same name the path under which they were found.
local function with_names(found)
  local count, seen, runs = {}, {}, {}
  for _, each in ipairs(found) do
    if not seen[each.folder] then -- the paths may overlap
      each.name = each.name or base_name(each.folder)
      count[each.name] = (count[each.name] or 0) + 1
      seen[each.folder], runs[#runs + 1] = true, each
    end
  end
  for _, each in ipairs(runs) do
    if count[each.name] > 1 then each.name = each.folder end
  end
  return runs
end

-- The description of a run, read again if a file has changed. That of a running run is always read
-- again: a killed process changes no file.
local function described(self, each)
  local held, mark = self.known[each.folder], run_entry.mark(each.folder)
  if held and held.mark == mark and held.run.name == each.name and held.run.state ~= "running"
    and not held.run.error then
    return held.run
  end
  local run = { folder = each.folder, name = each.name }
  local ok, why = pcall(run_entry.read, run)
  if not ok then run.error = errors.words(why) end
  self.known[each.folder] = { mark = mark, run = run }
  return run
end

local function is_before(a, b)
  if (a.began or "") ~= (b.began or "") then return (a.began or "") > (b.began or "") end
  return a.name < b.name
end

local function find(self)
  local began, found = system.clock(), {}
  for _, path in ipairs(self.paths) do search(path, nil, DEPTH, found) end
  self.found = with_names(found)
  self.searched = system.clock()
  self.pause = math.max(PAUSE, SHARE * (self.searched - began))
end

--- Searches for new runs, at most every two seconds, and reads what has changed.
---@return boolean whether anything is new
function RunList:refresh()
  if system.clock() - self.searched >= self.pause then find(self) end
  local runs, known = {}, {}
  for i, each in ipairs(self.found) do
    runs[i] = described(self, each)
    known[each.folder] = self.known[each.folder]
  end
  table.sort(runs, is_before)
  self.runs, self.known = runs, known
  local text = system.json_encode(runs)
  local is_new = text ~= self.text
  self.text = text
  return is_new
end

--- The run of this name; nil if there is none.
---@param name string
---@return moonring.ListedRun?
function RunList:of(name)
  for _, run in ipairs(self.runs) do
    if run.name == name then return run end
  end
end

--- The paths that have no run yet.
---@return string[]
function RunList:empty()
  local empty = {}
  for _, path in ipairs(self.paths) do
    local has_run = false
    for _, run in ipairs(self.runs) do
      has_run = has_run or run.folder == path or run.folder:sub(1, #path + 1) == path .. "/"
    end
    if not has_run then empty[#empty + 1] = path end
  end
  return empty
end

--- Describes a path that has no run yet: ": no such folder yet (did you mean 'saves'?)".
---@param path string
---@return string
function run_list.what_is_missing(path)
  if system.exists(path) then return "" end
  local near = system.did_you_mean(base_name(path), system.list(parent_of(path) .. "/"))
  return ": no such folder yet" .. near
end

return run_list
