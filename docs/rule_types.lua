--- Writes lua/types/trainer_rules.lua, the annotations of the optimizers of trainer/rules:
--   moonring docs/rule_types.lua > lua/types/trainer_rules.lua
io.write(require("moonring.commands.rule_types").text())
