--- Facts about this build of Moonring: version, commit, devices, LibTorch. //:dist has the commit
-- in lua/moonring/build.txt (lua/dist/dist.bzl), one `NAME VALUE` per line.
local optional_text = require "moonring.base.optional_text"
local system = require "moonring.native.system"

---@class moonring.build
local build = {}

--- The folder of the loaded LibTorch; nil if it cannot be determined.
---@return string?
function build.libtorch_folder()
  return optional_text.read("/proc/self/maps"):match "(/[^\n]*)/libtorch_cpu%.so"
end

--- version, device ("cpu", or "cuda" for a build that can also use GPUs), libtorch, and if this is
--- a packed build (`packed`) commit and date (YYYY-MM-DD), unless it was packed outside of git.
---@return { version: string, device: string, libtorch: string, packed: boolean, commit: string?,
---   date: string? }
function build.facts()
  local stamp = {}
  local text = optional_text.read((system.module_path("init"):gsub("init%.lua$", "build.txt")))
  for name, value in text:gmatch "(%w+) ([^\n]+)" do stamp[name] = value end
  local has_cuda = optional_text.read("/proc/self/maps"):find("libtorch_cuda.so", 1, true)
  return { version = system.version(), packed = stamp.device ~= nil, commit = stamp.commit,
    date = stamp.date, device = stamp.device or has_cuda and "cuda" or "cpu",
    libtorch = system.torch_version() }
end

--- All of it as one line: "moonring 0.1.0 (commit 1a2b3c4d, 2026-11-28; cpu; LibTorch 2.11.0)".
---@return string
function build.line()
  local of = build.facts()
  local commit = of.commit and ("commit %s, %s"):format(of.commit, of.date)
    or of.packed and "commit unknown" or "development build"
  return ("moonring %s (%s; %s; LibTorch %s)"):format(of.version, commit, of.device, of.libtorch)
end

return build
