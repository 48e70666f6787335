--- Memory and ranks of the current machine. Also converts sizes, bandwidths and times from and to
-- text.
local errors = require "moonring.base.errors"
local model = require "moonring.native.model"
local system = require "moonring.native.system"

---@class moonring.machine
local machine = {}

-- Bytes per second that one rank sends, by the name of the link. NVLink and InfiniBand have the
-- values that the cost estimates of attention use (attention/strategy/auto_attention.h). PCIe 4.0
-- x16 and Ethernet have their nominal bandwidth minus 10 to 20 %.
local LINKS = { nvlink = 200e9, pcie = 25e9, ib = 25e9, ["ethernet-100g"] = 11e9,
  ["ethernet-10g"] = 1.1e9, loopback = 1e9 }

local UNITS = { B = 1, KB = 1e3, MB = 1e6, GB = 1e9, TB = 1e12, KIB = 2 ^ 10, MIB = 2 ^ 20,
  GIB = 2 ^ 30, TIB = 2 ^ 40 }

--- Bytes of a size such as "80GiB" or "500MB". Errors: INVALID_ARGUMENT, beginning with the key.
---@param text string
---@param key string
---@return number
function machine.bytes(text, key)
  local number, unit = tostring(text):match "^%s*([%d.]+)%s*(%a+)%s*$"
  local bytes = tonumber(number or "") and UNITS[unit:upper()]
    and tonumber(number) * UNITS[unit:upper()]
  if not bytes or bytes <= 0 then
    errors.fail(key, ": expected a size such as 80GiB, 24GiB or 500MB, got '", tostring(text), "'")
  end
  return bytes
end

--- Bytes per second of a link, given in GB/s or by a name such as nvlink. Errors: INVALID_ARGUMENT,
--- beginning with the key.
---@param text string | number
---@param key string
---@return number
function machine.link(text, key)
  local number = tonumber(text)
  if number and number > 0 then return number * 1e9 end
  local names = {}
  for name in pairs(LINKS) do names[#names + 1] = name end
  table.sort(names)
  if not LINKS[text] then
    errors.fail(key, ": expected GB/s or one of ", table.concat(names, ", "), ", got '",
      tostring(text), "'", system.did_you_mean(tostring(text), names))
  end
  return LINKS[text]
end

local function number_in(path, pattern)
  local ok, text = pcall(system.read, path)
  local number = ok and tonumber(text:match(pattern or "^%s*(%d+)"))
  -- cgroup v1 represents "no limit" by a huge number.
  return number and number < 2 ^ 60 and number or nil
end

--- Whether this machine's CPU has bf16 instructions. Without them bf16 is slower than fp32.
---@return boolean
function machine.cpu_has_bf16()
  local ok, text = pcall(system.read, "/proc/cpuinfo")
  return ok and text:find "[%s_]bf16%s" ~= nil
end

-- The memory limit of this process's cgroup and the memory that remains below it, in bytes; nothing
-- if there is no limit. Inactive file pages count as remaining, because the kernel can drop them.
local function control_group()
  local ok, own = pcall(system.read, "/proc/self/cgroup")
  local path = ok and own:match "0::(/[^\n]*)" or "/"
  for _, place in ipairs { { "/sys/fs/cgroup" .. path, "memory.max", "memory.current" },
    { "/sys/fs/cgroup", "memory.max", "memory.current" },
    { "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes" } } do
    local limit, used = number_in(place[1] .. "/" .. place[2]),
      number_in(place[1] .. "/" .. place[3])
    if limit and used then
      local droppable = number_in(place[1] .. "/memory.stat", "inactive_file (%d+)") or 0
      return limit, math.max(0, limit - used + droppable)
    end
  end
end

--- The host's memory in bytes, limited to what the cgroup of this process allows.
---@return { total: number, available: number }
function machine.host_memory()
  local total = (number_in("/proc/meminfo", "MemTotal:%s*(%d+)") or 0) * 1024
  local available = (number_in("/proc/meminfo", "MemAvailable:%s*(%d+)") or 0) * 1024
  local limit, left = control_group()
  if limit then total, available = math.min(total, limit), math.min(available, left) end
  return { total = total, available = available }
end

--- The number of ranks on this machine, as set by torchrun and `moonring -n` (LOCAL_WORLD_SIZE);
--- nil if unset.
---@return integer?
function machine.local_ranks() return tonumber(system.environment "LOCAL_WORLD_SIZE") end

--- The local rank on this machine, from 0, as set by torchrun, `moonring -n` (LOCAL_RANK) or Slurm
--- (SLURM_LOCALID); nil if unset.
---@return integer?
function machine.local_rank()
  return tonumber(system.environment "LOCAL_RANK" or system.environment "SLURM_LOCALID")
end

--- Memory in bytes that each of `ranks` ranks on this machine can use: an equal share of the host's
--- available memory, or the free memory of a GPU, divided among the ranks that share it
--- (MOONRING_EXCHANGE=host). nil if unknown.
---@param device "cpu" | "cuda"
---@param ranks integer
---@return number?
function machine.memory_of_rank(device, ranks)
  if device == "cuda" then
    local ok, memory = pcall(model.gpu_memory)
    if not ok then return nil end
    -- Ranks may share a GPU only with MOONRING_EXCHANGE=host.
    local share = system.environment "MOONRING_EXCHANGE" == "host"
    return memory.free / (share and math.ceil(ranks / model.gpus()) or 1)
  end
  local host = machine.host_memory()
  return host.available > 0 and host.available / ranks or nil
end

--- Formats a size in bytes: "14.2 GiB".
---@param bytes number
---@return string
function machine.show(bytes)
  for _, unit in ipairs { "TiB", "GiB", "MiB" } do
    local size = UNITS[unit:upper()]
    if bytes >= size or unit == "MiB" then
      return (bytes / size < 100 and "%.1f %s" or "%.0f %s"):format(bytes / size, unit)
    end
  end
end

--- Formats a size in bytes with four digits, as the report does: "14.21 GiB".
---@param bytes number
---@return string
function machine.precise(bytes)
  local size = bytes
  for _, unit in ipairs { "B", "KiB", "MiB", "GiB" } do
    if size < 1024 then return ("%.4g %s"):format(size, unit) end
    size = size / 1024
  end
  return ("%.4g TiB"):format(size)
end

--- Formats a count with separators: "134,515,008".
---@param number integer
---@return string
function machine.grouped(number)
  return (("%d"):format(number):reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", ""))
end

--- Formats seconds, rounded: "1:02:03".
---@param seconds number
---@return string
function machine.clock(seconds)
  local whole = math.floor(seconds + 0.5)
  return ("%d:%02d:%02d"):format(whole / 3600, whole / 60 % 60, whole % 60)
end

return machine
