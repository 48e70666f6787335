--- Checks that all ranks of a run have the same configuration. Ranks that were started separately,
-- or by several launchers, may differ, and would silently train different runs.
local config = require "moonring.config"
local keys = require "moonring.config.keys"
local custom_pieces = require "moonring.choices.custom_pieces"
local system = require "moonring.native.system"

---@class moonring.agreement
local agreement = {}

-- The values of all keys that must be the same on all machines and that have an effect.
local function shared(c)
  local values = {}
  for row in keys.rows() do
    local value = c[row[1]]
    local mark = row.own_file and custom_pieces.mark(c, row[1])
    if mark then value = "a file of " .. mark:match "%((sha1 %x+)%)$" end
    if row.mark and value ~= nil then value = row.mark(c) end
    if row[1] == "template" and tostring(value):find "%.lua$" then value = "a file" end
    if value ~= nil and keys.acts(row) and not row.machine then
      values[row[1]] = type(value) == "table" and system.json_encode(value) or tostring(value)
    end
  end
  return values
end

--- Compares the configurations of all ranks; only paths and properties of a machine may differ.
--- Errors: INVALID_ARGUMENT with the keys, values and ranks. Collective over all ranks.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
function agreement.check(c, mesh)
  if mesh:size() == 1 then return end
  local all, changes = mesh:gather(system.json_encode(shared(c))), {}
  local first = system.json_decode(all[1])
  for rank = 2, #all do
    local values = all[rank] ~= all[1] and system.json_decode(all[rank]) or first
    for row in keys.rows() do
      local a, b = first[row[1]], values[row[1]]
      if a ~= b then
        changes[#changes + 1] = ("%s is %s on rank 0, %s on rank %d"):format(row[1],
          a or "nothing", b or "nothing", rank - 1)
      end
    end
    if #changes > 0 then
      config.fail("ranks were given other configurations: ", table.concat(changes, "; "))
    end
  end
end

return agreement
