--- Writes the pages of the Lua API into a folder, from the annotations in lua/types and
-- lua/moonring:
--   moonring docs/lua.lua docs/lua
local moonring = require "moonring"
local lua_pages = require "moonring.commands.lua_pages"

local folder = assert(arg[1], "usage: moonring docs/lua.lua FOLDER")
for name, text in pairs(lua_pages.texts()) do
  moonring.system.write(folder .. "/" .. name, text)
end
