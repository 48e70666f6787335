--- moonring help [COMMAND [KEY]]: lists the commands; `help train` lists every key of a
-- configuration, `help train KEY` explains one key.
local moonring = require "moonring"
local help = require "moonring.commands.help"
if #arg > 2 then moonring.config.fail "usage: moonring help [COMMAND [KEY]]" end
moonring.terminal.print(help.text(arg[1], arg[2]))
