--- moonring explain TRACE.json: says where the time of traced steps went, and what to change.
-- What a run with the key trace: 3-5 has written; by step and by rank: computing, waiting and for
-- whom, communication that nothing is computed beside, data, optimizer, saving; and the three
-- largest things to change.
local moonring = require "moonring"
local explain = require "moonring.commands.explain"
if #arg ~= 1 then moonring.config.fail("usage: moonring explain TRACE.json") end
moonring.terminal.print(explain.text(arg[1]))
