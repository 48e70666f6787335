--- The door of a service: its lock, key and address, on rank 0.
local on_first_rank = require "moonring.base.first_rank"
local native = require "moonring.native.serve"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.serve.access
local access = {}

-- Addresses that listen on all interfaces, and the loopback address that then reaches them.
local EVERY = { ["0.0.0.0"] = "127.0.0.1", ["::"] = "::1" }

--- Refuses an output_dir that another process has locked, and a port that is in use; changes
--- nothing. Collective over all ranks.
---@param service moonring.Service
function access.check(service)
  local c = service.config
  on_first_rank(service.mesh, function()
    trainer.check_folder_lock(service.folder)
    native.check_address(c.host, c.port)
  end)
end

-- Locks output_dir. Returns nil on a file system without locks.
local function lock(service)
  local taken, why = trainer.lock_folder(service.folder)
  if taken then return taken end
  system.make_folder(service.folder)
  service:note(("output_dir: %s; see to it that no other service writes into it"):format(why))
end

-- What clients read about the base models.
local function model_facts(service)
  local facts = {}
  for i, entry in ipairs(service.bases.list) do
    local opened = service.bases.opened[entry.name]
    facts[i] = { name = entry.name, names = entry.names, sampleable = true,
      trainable = not opened or opened:trainable(),
      max_context_length = opened and opened.checkpoint:max_position_embeddings() or 0 }
  end
  return facts
end

--- Locks output_dir, and opens the door, which answers requests once the first job is asked for.
--- Collective over all ranks.
---@param service moonring.Service
---@param states table<string, integer> for each model with a state on disk, the last seq_id in it
function access.open(service, states)
  local c = service.config
  on_first_rank(service.mesh, function()
    service.lock = lock(service)
    local folder = service.folder .. "/serve"
    system.make_folder(folder)
    service.key = c.api_key or native.kept_key(folder .. "/api_key")
    service.door = native.open { host = c.host, port = c.port, key = service.key, folder = folder,
      external = service.folder .. "/external_weights", base_models = model_facts(service),
      states = states }
  end)
end

--- The lines to print when the service listens.
---@param service moonring.Service
---@return string[]
function access.lines(service)
  local c = service.config
  local host = EVERY[c.host] or c.host
  if host:find ":" then host = "[" .. host .. "]" end
  local address = ("http://%s:%d"):format(host, service.door:port())
  return {
    "serve  " .. service.bases.list[1].name .. " at " .. address,
    "export TINKER_BASE_URL=" .. address .. " TINKER_API_KEY=" .. service.key,
    "export OPENAI_BASE_URL=" .. address .. "/v1 OPENAI_API_KEY=" .. service.key,
  }
end

return access
