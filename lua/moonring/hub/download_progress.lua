--- Prints the progress of a download. On a terminal it redraws a bar; otherwise it prints a line at
-- the beginning of a large download and every 30 seconds. At the end it prints the size and the
-- duration.
local machine = require "moonring.base.machine"
local system = require "moonring.native.system"
local terminal = require "moonring.base.terminal"

---@class moonring.download_progress
local download_progress = {}

---@class moonring.DownloadProgress
local DownloadProgress = {}
DownloadProgress.__index = DownloadProgress

local EVERY = 30 -- seconds between lines
local LARGE = 50e6 -- bytes
local WIDTH = 24 -- characters of the bar

local function size(bytes)
  for _, unit in ipairs { { 1e9, "GB" }, { 1e6, "MB" }, { 1e3, "kB" } } do
    if bytes >= unit[1] then return ("%.2f %s"):format(bytes / unit[1], unit[2]) end
  end
  return ("%d bytes"):format(bytes)
end

--- Creates the progress output of one repository's download.
---@param question moonring.HubQuestion
---@param repo moonring.Repository
---@return moonring.DownloadProgress
function download_progress.new(question, repo)
  local bar = system.is_terminal() and type(io.stderr) == "userdata"
    and not question.of.disable_tqdm
  return setmetatable({ name = question.name, from = repo:endpoint(), into = repo:cache(),
    bar = bar, began = system.clock(), fetched = 0, last_fetched = 0, before = 0 },
    DownloadProgress)
end

--- Prints a line above the bar.
---@param text string
function DownloadProgress:line(text)
  if self.open then terminal.redraw "" end
  terminal.note(text, "\n")
  self.open = false
end

-- Redraws the bar, without a newline.
local function draw(self, bytes, total)
  local share = total > 0 and bytes / total or 1
  local rate = self.fetched / math.max(system.clock() - self.began, 1e-3)
  local full = math.floor(share * WIDTH)
  terminal.redraw(("%s %3d%% |%s%s| %s of %s  %s/s  %s left"):format(self.name,
    math.floor(100 * share), ("#"):rep(full), (" "):rep(WIDTH - full), size(bytes), size(total),
    size(rate), rate > 0 and machine.clock((total - bytes) / rate) or "?"))
  self.open = true
end

--- Reports progress: `bytes` of `total` bytes are in the cache.
---@param bytes integer
---@param total integer
---@param fetched integer bytes downloaded by the current fetch
function DownloadProgress:progress(bytes, total, fetched)
  if fetched < self.last_fetched then self.before = self.fetched end
  self.last_fetched, self.fetched = fetched, self.before + fetched
  local now = system.clock()
  if self.bar then return draw(self, bytes, total) end
  if not self.spoke then
    self.spoke = now
    if total - bytes < LARGE then return end
    self:line(("%s: downloading %s"):format(self.name, size(total - bytes)))
  elseif now - self.spoke >= EVERY then
    self.spoke = now
    self:line(("%s: %s of %s"):format(self.name, size(bytes), size(total)))
  end
end

--- Reports the end of the download.
---@param commit string
function DownloadProgress:done(commit)
  local seconds = system.clock() - self.began
  self:line(("%s: %s downloaded from %s into %s in %s (%s/s), commit %s"):format(self.name,
    size(self.fetched), self.from, self.into, machine.clock(seconds),
    size(self.fetched / math.max(seconds, 1e-3)), commit:sub(1, 12)))
end

return download_progress
