--- moonring explain TRACE.json: shows where the time of traced steps went, and what to change.
-- TRACE.json is written by a run with the key trace: 3-5. Shows the time of each step and rank:
-- computing, waiting (and for which rank), communication that does not overlap with computing,
-- data, optimizer, saving; then the three changes that would save most.
local moonring = require "moonring"
local explain = require "moonring.commands.explain"
if #arg ~= 1 then moonring.config.fail("usage: moonring explain TRACE.json") end
moonring.terminal.print(explain.text(arg[1]))
