--- Requests to save, or to save and end, which come from signals or from the program that embeds
-- Moonring.
local system = require "moonring.native.system"

---@class moonring.preemption
local preemption = {}

-- The requests by priority: if ranks got different ones, the later in this list is used.
local WISHES = { "SIGUSR1", "SIGHUP", "SIGINT", "SIGTERM", "cancelled" }

--- Returns the request that any rank has received since the last call; nil if there is none. Call
--- it between steps. Collective over all ranks.
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

--- Whether the run must end, not only save.
---@param asked string? the result of `asked`
---@return boolean
function preemption.ends(asked) return asked ~= nil and asked ~= "SIGUSR1" end

return preemption
