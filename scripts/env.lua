--- moonring env: describes this machine and this build, as text for a bug report. Versions, CPU,
-- memory, GPUs, LibTorch, Python, optional libraries, and the environment variables that Moonring
-- and its libraries read. Values of tokens and passwords are not shown; names of machines, users
-- and folders may be, so read it before you publish it.
local env = require "moonring.commands.env"
local moonring = require "moonring"
if arg[1] then
  moonring.config.fail("usage: moonring env, without arguments; got '", table.concat(arg, " "), "'")
end
moonring.terminal.write(env.text())
