--- moonring report RUN... [out=FILE.html]: writes an HTML page that shows a run, or compares
-- several. The page is made from the files in the output_dir of each run: curves, evaluations,
-- memory, times, layouts, samples, configuration, data. Also works while a run is in progress, or
-- after it was killed. out: the file; absent: report.html in the run's folder, or with several runs
-- in the current folder. The page needs no network.
local moonring = require "moonring"
local folders, out = moonring.report.arguments(arg, "moonring report RUN... [out=FILE.html]", "out")
moonring.config.check_output({ out = out }, "out")
out = out or (#folders == 1 and folders[1] .. "/report.html" or "report.html")
moonring.terminal.print("report  " .. moonring.report.write(folders, out))
