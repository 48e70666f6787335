--- `moonring.report`: makes reports of runs from the files in their folders.
local command_words = require "moonring.base.command_words"
local errors = require "moonring.base.errors"
local page = require "moonring.report.page"
local run_files = require "moonring.report.run_files"
local run_list = require "moonring.report.run_list"
local system = require "moonring.native.system"
local watch = require "moonring.report.watch"
local watch_native = require "moonring.native.watch"

---@class moonring.report
local report = {}

-- Opens runs by their folders. A run is named by the last component of its folder's path, or by the
-- whole path if two runs would have the same name.
local function open(folders)
  local runs, named = {}, {}
  for i, folder in ipairs(folders) do
    runs[i] = run_files.open(folder)
    named[runs[i].name] = (named[runs[i].name] or 0) + 1
  end
  for i, run in ipairs(runs) do
    if named[run.name] > 1 then run.name = folders[i] end
  end
  return runs
end

--- Parses a command's arguments: folders, and optionally one key. Errors: INVALID_ARGUMENT if there
--- is no folder, or for another key.
---@param words string[]
---@param usage string "moonring report RUN... [out=FILE.html]"
---@param key string
---@return string[] folders
---@return string? value of the key
function report.arguments(words, usage, key)
  local folders, value = {}, nil
  local function kind_of(name) return name == key and "string" or nil end
  for _, word in ipairs(command_words.read(words, kind_of)) do
    if word.name == key and word.text then
      value = word.text
    elseif word.name and not system.is_folder(word.shown) then
      local why = word.name == key and " needs a value" or system.did_you_mean(word.name, { key })
      errors.fail(word.name == key and "" or "unknown ", "key '", word.name, "'", why, "; usage: ",
        usage)
    else
      folders[#folders + 1] = word.shown
    end
  end
  if #folders == 0 then errors.fail("usage: ", usage) end
  return folders, value
end

--- Writes a page about runs. Errors: NOT_FOUND for a folder without a run; INVALID_ARGUMENT, with
--- file and line, for a malformed file.
---@param folders string[]
---@param out string
---@return string out
function report.write(folders, out)
  local runs = open(folders)
  for _, run in ipairs(runs) do run:refresh() end
  system.write(out, page.text(runs))
  return out
end

--- Serves the page about runs on 127.0.0.1, until SIGINT, SIGTERM or SIGHUP. Errors:
--- INVALID_ARGUMENT for a path that is a file; PERMISSION_DENIED for a folder that cannot be read;
--- those of moonring.native.watch.listen.
---@param paths string[] folders of runs, or folders with such folders; they need not exist yet
---@param port? integer default: any free port
---@param tell fun(address: string) called with the page's address, including its token
---@param note? fun(line: string) called for each path that has no run yet
function report.serve(paths, port, tell, note)
  local server = watch_native.listen { port = port }
  local list = run_list.open(paths)
  tell(("http://127.0.0.1:%d/?token=%s"):format(server:port(), server:token()))
  list:refresh()
  for _, path in ipairs(note and list:empty() or {}) do
    note("waiting for a run in " .. path .. run_list.what_is_missing(path))
  end
  watch.serve(list, server)
  server:close()
end

return report
