--- moonring watch RUN... [port=N]: the page of `moonring report` for a browser on this machine,
-- kept up as the run goes on. It prints an address with a token, once: who has it sees the page.
-- It reads the run's files alone. port: absent: any that is free. Ctrl-C ends it.
local moonring = require "moonring"
local folders, port = moonring.report.arguments(arg, "moonring watch RUN... [port=N]", "port")
if port and not port:find "^%d%d?%d?%d?%d?$" then
  moonring.config.fail("port: wanted a number, got '", port, "'")
end
moonring.report.serve(folders, tonumber(port), function(address)
  moonring.terminal.print("watch  " .. address)
  io.flush()
end)
