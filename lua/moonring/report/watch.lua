--- `moonring watch`: serves the page of runs on the loopback address, before, during and after
-- them. It only reads the runs' files.
local chat_desk = require "moonring.report.chat_desk"
local errors = require "moonring.base.errors"
local page = require "moonring.report.page"
local run_files = require "moonring.report.run_files"
local system = require "moonring.native.system"

---@class moonring.watch
local watch = {}

---@class moonring.Watched
---@field list moonring.RunList
---@field shown table<string, moonring.ShownRun> by folder
---@field chat moonring.ChatDesk

--- A run that a page shows.
---@class moonring.ShownRun
---@field files moonring.RunFiles
---@field text? string its data as JSON
---@field revision integer counts the changes of `text`
---@field used number when a page last asked for it, by system.clock

local FIRST = 8        -- runs that are shown if the page names none: the newest
local KEPT_SECONDS = 60 -- the data of a run that no page asks for are freed after this time

-- The runs that a request asks for. Names without a run are left out: the run may have been
-- removed.
local function wanted(self, request)
  local names, runs = request.query.show, {}
  if not names then return { unpack(self.list.runs, 1, FIRST) } end
  for _, name in ipairs(names) do runs[#runs + 1] = self.list:of(name) end
  return runs
end

-- Reads what is new about a run, and returns its data. Only this changes them, so they are made
-- once for all pages.
local function read(self, run)
  local shown = self.shown[run.folder]
  if not shown then
    shown = { files = run_files.open(run.folder), revision = 0 }
    self.shown[run.folder] = shown
  end
  shown.used = system.clock()
  local is_named = shown.files.name == run.name
  shown.files.name = run.name
  if shown.files:refresh() or not shown.text or not is_named then
    shown.text, shown.revision = page.run_json(shown.files), shown.revision + 1
  end
  return shown
end

-- The data of these runs, a text that differs if they have changed, and what could not be read. A
-- malformed file does not hide the other runs; it may be complete the next time.
local function data_of(self, runs)
  local texts, marks, failure = {}, { self.list.text }, nil
  for _, run in ipairs(runs) do
    local ok, shown = pcall(read, self, run)
    if ok then
      texts[#texts + 1] = shown.text
      marks[#marks + 1] = run.folder .. " " .. shown.revision
    else
      failure = failure or errors.words(shown)
    end
  end
  return texts, table.concat(marks, "\n"), failure
end

local function free_unused(self)
  for folder, shown in pairs(self.shown) do
    if system.clock() - shown.used > KEPT_SECONDS then self.shown[folder] = nil end
  end
end

-- The entries of the list that the page needs.
local function listed(self)
  local entries = {}
  for i, run in ipairs(self.list.runs) do
    entries[i] = { name = run.name, state = run.state, step = run.step,
      total_steps = run.total_steps, began = run.began, stage = run.stage, error = run.error }
  end
  return entries
end

local function runs_json(self, request)
  local began = system.clock()
  self.list:refresh()
  local texts, mark, failure = data_of(self, wanted(self, request))
  free_unused(self)
  local empty, tag = self.list:empty(), nil
  if not failure then
    tag = system.sha1(mark)
    if tag == request.tag then return { status = 304, tag = tag } end
  end
  local data = page.json(texts, { list = listed(self),
    waiting = #empty > 0 and "waiting for a run in " .. table.concat(empty, ", ") or nil })
  local body = ('{"data":%s,"error":%s,"seconds":%.3f}'):format(data,
    system.json_encode(failure or system.null), system.clock() - began)
  return { type = "application/json", body = body, tag = tag }
end

local ROUTES = {
  ["GET /"] = function(self)
    return { type = "text/html; charset=utf-8", body = page.live(self.list.paths) }
  end,
  ["GET /runs.json"] = runs_json,
  ["GET /chat.json"] = function(self, request)
    local name = (request.query.run or {})[1]
    return name and self.chat:models(name) or self.chat:state()
  end,
  ["POST /chat"] = function(self, request) return self.chat:take(request) end,
}

-- The answer to a request; nil if it is sent in parts.
local function answer(self, request)
  local route = ROUTES[request.method .. " " .. request.path]
  if route then return route(self, request) end
  local other = request.method == "POST" and "GET" or "POST"
  if ROUTES[other .. " " .. request.path] then
    return { status = 405, body = "expected " .. other .. "\n" }
  end
  return { status = 404, body = "no such page\n" }
end

--- Serves runs until a signal ends it.
---@param list moonring.RunList
---@param server moonring.PageServer
function watch.serve(list, server)
  local self = { list = list, shown = {}, chat = chat_desk.new(server, list) }
  while not server:ended() do
    local request = server:next(self.chat.queue:pause())
    if request then
      local ok, found = pcall(answer, self, request)
      if not ok then found = { status = 500, body = errors.words(found) .. "\n" } end
      if found then server:answer(request.id, found) end
    end
    self.chat.queue:tick()
  end
  self.chat.queue:close()
end

return watch
