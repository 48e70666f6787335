--- What asks a run to save, or to save and end: signals, and whoever embeds Moonring.
local system = require "moonring.native.system"

---@class moonring.preemption
local preemption = {}

-- The later one counts where ranks were asked for several.
local WISHES = { "SIGUSR1", "SIGHUP", "SIGINT", "SIGTERM", "cancelled" }

--- What any rank was asked for, at the border of a step. Collective over all ranks.
---@param mesh moonring.Mesh
---@return "SIGTERM" | "SIGINT" | "SIGHUP" | "SIGUSR1" | "cancelled" | nil
function preemption.asked(mesh)
  local asked, wish = system.preemption(), 0
  for i, name in ipairs(WISHES) do
    if name == asked then wish = i end
  end
  if mesh:size() > 1 then wish = mesh:max(wish) end
  return WISHES[wish]
end

--- Whether the run is to end, and not only to save.
---@param asked string? what `asked` gave
---@return boolean
function preemption.ends(asked) return asked ~= nil and asked ~= "SIGUSR1" end

return preemption
