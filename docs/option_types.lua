--- Writes lua/types/trainer_options.lua, the annotations of optimizers and of listed options:
--   moonring docs/option_types.lua > lua/types/trainer_options.lua
io.write(require("moonring.commands.option_types").text())
