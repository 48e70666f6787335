--- Describes the GPUs of a run's ranks, and checks that they support the configuration.
local config = require "moonring.config"
local machine = require "moonring.base.machine"
local model = require "moonring.native.model"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.gpu
local gpu = {}

-- The compute capability (Ampere) that bf16 products and flash attention need.
local AMPERE = 8

local WORDS = "%s, compute capability %d.%d, %d multiprocessors, %s; bf16: %s, flash attention: "
  .. "%s; "
  .. "CUDA %s, its driver up to %s"

local REFUSAL = "%s: %s has compute capability %d.%d, and %s 8.0 or more "
  .. "(A100, L4, H100, RTX 30 and later); %s: false trains in fp32 there, --device cpu trains in "
  .. "%s on the CPU"

-- For each key: its dtype, and the features of that dtype that need a newer GPU.
local NARROW = { { "bf16", "bf16", "bf16 and flash attention need" },
  { "pure_bf16", "bf16", "bf16 and flash attention need" },
  { "fp16", "fp16", "flash attention needs" } }

-- Converts a CUDA version: 13000 -> "13.0".
local function version(number)
  return ("%d.%d"):format(math.floor(number / 1000), math.floor(number % 1000 / 10))
end

--- Describes a GPU as text. `found` has the fields name, major, minor, multiprocessors, driver and
--- runtime of trainer.gpu, if known, and `total` bytes.
---@param found table
---@return string
function gpu.describe(found)
  if not found.name then return ("a GPU with %s"):format(machine.show(found.total)) end
  local able = found.major >= AMPERE and "yes" or "no"
  return WORDS:format(found.name, found.major, found.minor, found.multiprocessors,
    machine.show(found.total), able, able, version(found.runtime), version(found.driver))
end

--- The reason why a configuration cannot run on a GPU, and what to change; nil if it can.
---@param c moonring.Configuration
---@param found table as for `describe`
---@return string?
function gpu.refusal(c, found)
  if not found.name or found.major >= AMPERE then return nil end
  for _, row in ipairs(NARROW) do
    local key, dtype, wants = unpack(row)
    if c[key] then
      return REFUSAL:format(key, found.name, found.major, found.minor, wants, key, dtype)
    end
  end
end

-- Names the ranks that have a kind of GPU.
local function owners(kind, ranks)
  if ranks == 1 then return "GPU" end
  if #kind.ranks == ranks then return ("GPU of each of %d ranks"):format(ranks) end
  return ("GPU of rank %s"):format(table.concat(kind.ranks, ", "))
end

--- One line per kind of GPU.
---@param ranks { words: string, free: number }[] by rank
---@return string[]
function gpu.lines(ranks)
  local kinds, of, lines = {}, {}, {}
  for i, each in ipairs(ranks) do
    local kind = of[each.words]
    if not kind then
      kind = { words = each.words, ranks = {}, free = each.free }
      of[each.words], kinds[#kinds + 1] = kind, kind
    end
    kind.ranks[#kind.ranks + 1], kind.free = i - 1, math.min(kind.free, each.free)
  end
  for i, kind in ipairs(kinds) do
    lines[i] = ("%s: %s; %s%s free"):format(owners(kind, #ranks), kind.words,
      #kind.ranks > 1 and "at least " or "", machine.show(kind.free))
  end
  return lines
end

--- Raises INVALID_ARGUMENT if the GPU does not support the configuration; the message says what to
--- change. Returns lines that describe the GPUs of all ranks. Collective over all ranks.
---@param c moonring.Configuration
---@param device "cpu" | "cuda"
---@param mesh moonring.Mesh
---@return string[] lines for a log
function gpu.check(c, device, mesh)
  if device ~= "cuda" then return {} end
  local found, memory, ranks = trainer.gpu() or {}, model.gpu_memory(), {}
  found.total = memory.total
  local why = gpu.refusal(c, found)
  if why then config.fail(why) end
  local mine = system.json_encode { words = gpu.describe(found), free = memory.free }
  for i, text in ipairs(mesh:gather(mine)) do ranks[i] = system.json_decode(text) end
  return gpu.lines(ranks)
end

return gpu
