--- The configuration of `moonring serve`, from a model's path or a YAML and keys.
local chat = require "moonring.run.chat"
local checks = require "moonring.config.key_values"
local config = require "moonring.config"
local errors = require "moonring.base.errors"
local serve_keys = require "moonring.serve.keys"
local strategies = require "moonring.choices.strategies"

---@class moonring.serve.settings
local settings = {}

local USAGE = "moonring serve MODEL|CONFIG.yaml [key=value...]"
local FOLDER = "runs/serve" -- output_dir if none is given
local KEY = "^tml%-[%w_-]+$"

local function set_of(names)
  local set = {}
  for _, name in ipairs(names) do set[name] = true end
  return set
end

-- Refuses keys that a service does not have, and notes those that have no effect.
local function check_keys(c)
  local acts, idle, rows = set_of(serve_keys.acting), {}, checks.rows()
  for _, row in ipairs(serve_keys.own) do acts[row[1]] = true end
  for name in pairs(c.given) do
    local is_default = rows[name] and checks.same(c[name], rows[name][3])
    local why = serve_keys.refused[name]
    if why and not is_default then errors.fail(name, ": not in moonring serve: ", why) end
    if not acts[name] and not is_default then idle[#idle + 1] = name end
  end
  table.sort(idle)
  if #idle > 0 then
    c.notes[#c.notes + 1] = "no effect in moonring serve (set by requests, or used only by train): "
      .. table.concat(idle, ", ")
  end
end

-- A service cuts no text: cutoff_len is the length for which rope_scaling scales. (It is also the
-- default of micro_batch_tokens.)
local function check_cutoff(c)
  if c.rope_scaling and not c.given.cutoff_len then
    errors.fail("rope_scaling: expected cutoff_len with it, the tokens of the longest text that ",
      "clients send")
  end
end

local function check_key(key)
  if not key or key:find(KEY) then return end
  errors.fail "api_key: expected tml- and then letters, digits, '-' or '_': clients refuse others"
end

-- Reads base_models: NAME=FOLDER. Returns a list in the order given.
local function further_models(c)
  local list, seen = {}, {}
  for _, text in ipairs(c.base_models or {}) do
    local name, folder = text:match "^([^=]+)=(.+)$"
    if not name then errors.fail("base_models: expected NAME=FOLDER, got '", text, "'") end
    if seen[name] then errors.fail("base_models: '", name, "' is given twice") end
    seen[name], list[#list + 1] = true, { name = name, path = folder }
  end
  return list
end

--- Reads the words of the command: [MODEL|ADAPTER|CONFIG.yaml] and keys and values. Errors:
--- INVALID_ARGUMENT.
---@param words string[] `arg`
---@return moonring.Configuration
function settings.read(words)
  local rest = { unpack(words) }
  local path = config.path(rest)
  if #words == 0 then errors.fail("usage: ", USAGE) end
  local c = chat.configuration(path, rest, serve_keys.own)
  check_keys(c)
  check_key(c.api_key)
  c.output_dir = c.output_dir or FOLDER
  c.further_models = further_models(c)
  if c.sequence_parallel_size < 1 then
    errors.fail("sequence_parallel_size: expected at least 1, got ", c.sequence_parallel_size)
  end
  strategies.check(c)
  check_cutoff(c)
  return c
end

return settings
