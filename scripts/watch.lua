--- moonring watch FOLDER... [port=N]: shows the page of `moonring report` to a browser on this
-- machine. The page is updated while a run is in progress. FOLDER: the folder of a run, or a folder
-- with runs in it, at most three levels below: all are listed, also those that begin later. It need
-- not exist yet. Prints an address with a token once; whoever has the address can see the page.
-- Reads only the runs' files. port: absent: any free port. Ctrl-C ends it.
local moonring = require "moonring"
local folders, port = moonring.report.arguments(arg, "moonring watch FOLDER... [port=N]", "port")
if port and not port:find "^%d%d?%d?%d?%d?$" then
  moonring.config.fail("port: expected a number, got '", port, "'")
end
moonring.report.serve(folders, tonumber(port), function(address)
  moonring.terminal.print("watch  " .. address)
  io.flush()
end, function(line) moonring.terminal.note(line, "\n") end)
