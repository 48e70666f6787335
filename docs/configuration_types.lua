--- Writes lua/types/configuration.lua from the table that `moonring help train` prints:
--   moonring docs/configuration_types.lua > lua/types/configuration.lua
io.write(require("moonring.config.key_types").text())
