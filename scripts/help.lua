--- moonring help [COMMAND]: what there is; `help train` lists every key of a configuration.
local moonring = require "moonring"
print(moonring.help.text(arg[1]))
