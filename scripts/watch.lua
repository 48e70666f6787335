--- moonring watch RUN... [port=N]: shows the page of `moonring report` to a browser on this
-- machine. The page is updated while the run is in progress. Prints an address with a token once;
-- whoever has the address can see the page. Reads only the run's files. port: absent: any free
-- port. Ctrl-C ends it.
local moonring = require "moonring"
local folders, port = moonring.report.arguments(arg, "moonring watch RUN... [port=N]", "port")
if port and not port:find "^%d%d?%d?%d?%d?$" then
  moonring.config.fail("port: expected a number, got '", port, "'")
end
moonring.report.serve(folders, tonumber(port), function(address)
  moonring.terminal.print("watch  " .. address)
  io.flush()
end)
