--- moonring version [--json]: prints the version, the commit and its date, the devices that this
-- build can use, and LibTorch's version. A build that Bazel runs in its source tree has no commit:
-- it is a development build. --json: the same as one JSON object.
local build = require "moonring.base.build"
local moonring = require "moonring"
if arg[2] or arg[1] and arg[1] ~= "--json" then
  moonring.config.fail("usage: moonring version [--json], got '", table.concat(arg, " "), "'")
end
print(arg[1] and moonring.system.json_encode(build.facts()) or build.line())
