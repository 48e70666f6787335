--- Writes lua/types/operators.lua, the annotations of every operator, from LibTorch's own schemas:
--   moonring docs/operator_types.lua > lua/types/operators.lua
io.write(require("moonring.commands.operator_types").text())
