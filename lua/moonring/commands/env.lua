--- Describes this machine and this build, for bug reports. What cannot be determined is "unknown";
-- nothing here raises an error, and no value of a credential is shown.
local build = require "moonring.base.build"
local hardware = require "moonring.base.hardware"
local machine = require "moonring.base.machine"
local model = require "moonring.native.model"
local optional_text = require "moonring.base.optional_text"
local secrets = require "moonring.config.secrets"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.env
local env = {}

local read = optional_text.read

-- Instruction sets that the CPU kernels of Moonring or LibTorch use if they exist.
local INSTRUCTIONS = { "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16",
  "avx512_fp16", "amx_bf16", "amx_int8" }

-- Environment variables that Moonring and its libraries read: beginnings of names, and names.
local BEGINNINGS = { "MOONRING_", "OMP_", "GOMP_", "KMP_", "MKL_", "TORCH_", "TORCHELASTIC_",
  "PYTORCH_", "CUDA_", "NCCL_", "GLOO_", "HF_", "TCMALLOC_", "WANDB_", "MLFLOW_", "SWANLAB_" }
local NAMES = {}
for _, name in ipairs { "ALLOW_EXTRA_ARGS", "ALL_PROXY", "ATEN_CPU_CAPABILITY", "CURL_CA_BUNDLE",
  "GROUP_RANK", "HTTPS_PROXY", "HTTP_PROXY", "HUGGINGFACE_HUB_CACHE", "HUGGING_FACE_HUB_TOKEN",
  "LD_LIBRARY_PATH", "LD_PRELOAD", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MALLOC_ARENA_MAX",
  "MASTER_ADDR", "MASTER_PORT", "NO_COLOR", "NO_PROXY", "RANK", "REQUESTS_CA_BUNDLE",
  "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_PROCID",
  "SLURM_STEP_ID", "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS",
  "SSL_CERT_FILE", "TERM", "TRANSFORMERS_OFFLINE", "WORLD_SIZE", "XDG_CACHE_HOME", "XDG_STATE_HOME",
  "all_proxy", "http_proxy", "https_proxy", "no_proxy" } do
  NAMES[name] = true
end

-- Parts of names, in capitals, of variables whose value is never shown. An address of a proxy may
-- hold a password.
local HIDDEN = { "TOKEN", "KEY", "SECRET", "PASS", "CRED", "AUTH", "JWT", "COOKIE", "HTTPS?_PROXY",
  "ALL_PROXY" }

-- Without FFI (under --sandbox) no program can be started and no library tried.
local has_ffi = pcall(require, "ffi")

-- The result of a function of C, by LuaJIT's FFI: get(ffi); nil if there is no FFI (--sandbox), or
-- no such function or library.
local function from_c(declaration, get)
  local ok, value = pcall(function()
    local ffi = require "ffi"
    ffi.cdef(declaration)
    return get(ffi)
  end)
  return ok and value or nil
end

local function version_of_c_library()
  return from_c("const char* gnu_get_libc_version(void);", function(ffi)
    return ffi.string(ffi.C.gnu_get_libc_version())
  end)
end

local function threads()
  return from_c("int omp_get_max_threads(void);", function(ffi)
    return ffi.C.omp_get_max_threads()
  end)
end

local function curl()
  return from_c("const char* curl_version(void);", function(ffi)
    return ffi.string(ffi.load("libcurl.so.4").curl_version()):match "^%S+ ?%S*"
  end)
end

-- Landlock's version, of the kernel (landlock_create_ruleset asked for it); 0 or less: none.
local function landlock()
  return from_c("long syscall(long number, ...);", function(ffi)
    local int = ffi.typeof "int"
    return tonumber(ffi.C.syscall(444, ffi.cast("void*", 0), ffi.cast("size_t", 0), int(1)))
  end)
end

local function operating_system()
  local kernel = read("/proc/sys/kernel/osrelease"):match "%S+" or "unknown"
  local name = read("/etc/os-release"):match 'PRETTY_NAME="?([^"\n]*)'
  return ("%s, Linux %s, glibc %s"):format(name or "unknown", kernel,
    version_of_c_library() or "unknown")
end

local function cpu()
  local text = read "/proc/cpuinfo"
  local flags = " " .. (text:match "flags%s*:([^\n]*)" or "") .. " "
  local has = {}
  for _, name in ipairs(INSTRUCTIONS) do
    if flags:find(" " .. name .. " ", 1, true) then has[#has + 1] = name end
  end
  return hardware.processor() or "unknown",
    #has > 0 and table.concat(has, " ") or "unknown"
end

local function cores()
  local online = hardware.cores()
  local allowed = read("/proc/self/status"):match "Cpus_allowed_list:%s*(%S+)"
  local quota, period = read("/sys/fs/cgroup/cpu.max"):match "^(%d+) (%d+)"
  local text = online and ("%d"):format(online) or "unknown"
  if allowed then text = text .. ", this process may use " .. allowed end
  if quota then text = text .. (", quota %.1f"):format(quota / period) end
  return text
end

local function memory()
  local of = machine.host_memory()
  if of.total == 0 then return "unknown" end
  return ("%s, %s available"):format(machine.show(of.total), machine.show(of.available))
end

-- The GPUs and driver that the kernel knows, and what this build can use.
local function gpus()
  local names = {}
  local folder = "/proc/driver/nvidia/gpus"
  local ok, found = pcall(system.list, folder)
  for _, name in ipairs(ok and found or {}) do
    names[#names + 1] = read(folder .. "/" .. name .. "/information"):match "Model:%s*([^\n]*)"
  end
  local driver = read("/proc/driver/nvidia/version"):match "Kernel Module[^\n]-%s(%d[%d.]+)"
  local counted, usable = pcall(model.gpus)
  local text = #names > 0 and table.concat(names, ", ") or "none"
  if driver then text = text .. ", driver " .. driver end
  text = text .. (", usable by this build: %s"):format(counted and usable or "unknown")
  local got, gpu = pcall(trainer.gpu)
  if got and gpu then
    text = text .. (" (compute capability %d.%d, CUDA %d)"):format(gpu.major, gpu.minor,
      gpu.runtime)
  end
  return text
end

-- The first line that a command prints; nil if it fails. `program` is quoted for the shell.
local function said_by(program, words)
  local ok, line = pcall(function()
    local pipe = io.popen("'" .. program:gsub("'", "'\\''") .. "' " .. words .. " 2>&1 </dev/null")
    local first = pipe:read "*l"
    pipe:close()
    return first
  end)
  return ok and line or nil
end

local function python()
  local program = system.environment "MOONRING_PYTHON" or "python3"
  local said = said_by(program, "--version")
  if not (said and said:find "^Python %d") then return program .. ": none" end
  return program .. ": " .. said:match "%S+$"
end

-- Loads the library for Parquet and Arrow files, as data/files/arrow_library.h does.
local function parquet()
  local root = system.module_path("init"):match "^(.*)/lua/moonring/init%.lua$"
  for _, path in ipairs { root .. "/lib/libmoonring_arrow.so",
    root .. "/data/files/libmoonring_arrow.so" } do
    local exists, there = pcall(system.exists, path)
    if exists and there then
      local ok, why = pcall(function() return require("ffi").load(path) end)
      return ok and "yes" or "no: " .. tostring(why):gsub("\n.*", "")
    end
  end
  return "unknown"
end

local function sandbox()
  local version = landlock()
  if not version then return "unknown" end
  return version > 0 and ("Landlock %d"):format(version)
    or "no Landlock: --sandbox checks paths itself"
end

-- Whether the value of an environment variable may be a credential.
local function is_hidden(name)
  local upper = name:upper()
  for _, part in ipairs(HIDDEN) do
    if upper:find(part) then return true end
  end
  return secrets.is_one(name)
end

local function is_read(name)
  if NAMES[name] then return true end
  for _, beginning in ipairs(BEGINNINGS) do
    if name:sub(1, #beginning) == beginning then return true end
  end
  return false
end

--- The environment variables that Moonring and its libraries read, as lines NAME=VALUE, sorted. Of
--- variables that may hold a credential only the name is shown, and no user name or password of an
--- address.
---@param environment string NAME=VALUE, each followed by a zero byte, as in /proc/self/environ
---@return string[]
function env.variables(environment)
  local lines = {}
  for name, value in environment:gmatch "([^=%z]+)=(%Z*)" do
    if is_read(name) then
      value = is_hidden(name) and "(set; its value is not shown)"
        or value:gsub("://[^/%s]*@", "://***@")
      lines[#lines + 1] = name .. "=" .. value
    end
  end
  table.sort(lines)
  return lines
end

--- The whole text: a fenced block of Markdown.
---@return string
function env.text()
  local name, instructions = cpu()
  local lines = { build.line(), "" }
  if not has_ffi then lines[2] = "(Under --sandbox most of this cannot be read.)\n" end
  for _, row in ipairs {
    { "system", operating_system() },
    { "CPU", name },
    { "", instructions },
    { "cores", cores() },
    { "memory", memory() },
    { "GPUs", gpus() },
    { "LibTorch", ("%s in %s"):format(system.torch_version(),
      build.libtorch_folder() or "unknown") },
    { "threads", tostring(threads() or "unknown") },
    { "LuaJIT", jit and jit.version or "unknown" },
    { "Python", has_ffi and python() or "unknown" },
    { "Parquet", has_ffi and parquet() or "unknown" },
    { "libcurl", curl() or has_ffi and "none: no names on a hub, no reward services" or "unknown" },
    { "sandbox", sandbox() },
  } do
    lines[#lines + 1] = ("%-9s %s"):format(row[1], row[2])
  end
  local variables = env.variables(read "/proc/self/environ")
  lines[#lines + 1] = #variables > 0 and "" or nil
  for _, line in ipairs(variables) do lines[#lines + 1] = line end
  local text = table.concat(lines, "\n"):gsub("```", "'''")
  return "```text\n" .. text .. "\n```\n"
end

return env
