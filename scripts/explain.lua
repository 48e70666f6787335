--- moonring explain TRACE.json: where the time of the steps went that a run has traced (its key
-- trace: 3-5): computing, waiting and for whom, communication that nothing is computed beside,
-- data, optimizer, saving; and the three largest things to change.
local moonring = require "moonring"
if #arg ~= 1 then moonring.config.fail("usage: moonring explain TRACE.json") end
print(moonring.explain.text(arg[1]))
