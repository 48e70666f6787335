--- `moonring watch`: serves the page of a run on the loopback address, while the run is in progress
-- or after it. It only reads the run's files.
local errors = require "moonring.base.errors"
local page = require "moonring.report.page"
local system = require "moonring.native.system"

---@class moonring.watch
local watch = {}

---@class moonring.Watched
---@field runs moonring.RunFiles[]
---@field revision integer counts the changes of `text`
---@field text? string the data for the page

-- Updates the data for the page. If a file is malformed, the page shows the error; the file may be
-- complete at the next refresh.
local function refresh(self)
  local changed, began = self.text == nil, system.clock()
  for _, run in ipairs(self.runs) do changed = run:refresh() or changed end
  if not changed then return end
  local data = page.json(self.runs)
  self.revision = self.revision + 1
  self.text = ('{"data":%s,"seconds":%.3f}'):format(data, system.clock() - began)
end

local function page_data(self)
  local ok, why = pcall(refresh, self)
  local body = ok and self.text or system.json_encode { error = errors.words(why) }
  return { type = "application/json", body = body, tag = ok and tostring(self.revision) or nil }
end

local function answer(self, request)
  if request.path == "/" then
    return { type = "text/html; charset=utf-8", body = page.text(self.runs, true) }
  elseif request.path ~= "/runs.json" then
    return { status = 404, body = "no such page\n" }
  end
  local data = page_data(self)
  if data.tag and data.tag == request.tag then return { status = 304, tag = data.tag } end
  return data
end

--- Serves runs until a signal ends it.
---@param runs moonring.RunFiles[]
---@param server moonring.PageServer
function watch.serve(runs, server)
  local self = { runs = runs, revision = 0 }
  while not server:ended() do
    local request = server:next(60)
    if request then
      local ok, found = pcall(answer, self, request)
      if not ok then found = { status = 500, body = errors.words(found) .. "\n" } end
      server:answer(request.id, found)
    end
  end
end

return watch
