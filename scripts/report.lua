--- moonring report RUN... [out=FILE.html]: makes a page that shows runs, or compares them. It is
-- made from the files in their folders (output_dir): curves, evaluations, memory, times, layouts,
-- samples, configuration, data. Of a run that goes on or was killed too. out: the file; absent:
-- report.html in the folder of a run, or of several in the current one. The page needs no network.
local moonring = require "moonring"
local folders, out = moonring.report.arguments(arg, "moonring report RUN... [out=FILE.html]", "out")
moonring.config.check_output({ out = out }, "out")
out = out or (#folders == 1 and folders[1] .. "/report.html" or "report.html")
moonring.terminal.print("report  " .. moonring.report.write(folders, out))
