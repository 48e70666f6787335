--- Work that only rank 0 does, but whose error all ranks must know.
local errors = require "moonring.base.errors"

--- Calls f on rank 0. Its error is raised on all ranks. Collective over all ranks.
---@param mesh moonring.Mesh
---@param f function
return function(mesh, f)
  local text = ""
  if mesh:rank() == 0 then
    local ok, why = pcall(f)
    text = ok and "" or errors.encode(why)
  end
  local refused = mesh:gather(text)[1]
  if refused ~= "" then error(errors.decode(refused), 0) end
end
