---@meta moonring.native.prompt

--- Native functions for the interactive prompt (used by lua/moonring/prompt). All except evaluate,
--- class_of, methods and place raise FAILED_PRECONDITION if no prompt is open; send, leave,
--- receive, report and gather also if it has only one rank.
---@class moonring.native.prompt
local prompt = {}

--- Whether lines are edited at a terminal; otherwise they are read from stdin.
---@return boolean
function prompt.is_typed() end

--- Whether the program was started with --sandbox.
---@return boolean
function prompt.is_confined() end

--- Reads a line with editing at the terminal. Tab calls `complete(line, cursor)`, which returns
--- where the word before the cursor begins (from 0), its possible completions, and the same words
--- as they are displayed.
---@param text string the prompt before the line
---@param complete fun(line: string, cursor: integer): integer, string[], string[]
---@return string? line nil at the end of input or after Ctrl-C
---@return boolean interrupted whether Ctrl-C ended it
function prompt.read_line(text, complete) end

--- Runs `fn(...)`, interruptible by Ctrl-C. Returns true and its results, or false, the error's
--- message ("interrupted") and the stack of the user's lines ("" if the message contains it).
---@param fn fun(...): any
---@param ... any
---@return boolean ended
---@return any ...
function prompt.evaluate(fn, ...) end

--- The class name of a native object, such as "Tensor"; "" for another value.
---@param value any
---@return string
function prompt.class_of(value) end

--- The functions of a native class; {} for an unknown name.
---@param class string such as "Tensor"
---@return table<string, function>
function prompt.methods(class) end

--- Where a Lua function is defined: chunk ("=moonring/run/batch") and line; "" for a native one.
---@param fn function
---@return string source
---@return integer line
function prompt.place(fn) end

--- This rank's number.
---@return integer
function prompt.rank() end

--- Number of ranks, each of which runs every line.
---@return integer
function prompt.size() end

--- Rank 0: sends a line to all other ranks.
---@param line string
function prompt.send(line) end

--- Rank 0: announces that no more lines follow; the others' receive returns nil.
function prompt.leave() end

--- Other ranks: waits for the next line, without a time limit; nil after rank 0's `leave`.
---@return string?
function prompt.receive() end

--- Other ranks: reports to rank 0 that this line has ended, and its outcome in words.
---@param outcome string
function prompt.report(outcome) end

--- Rank 0: gathers the other ranks' reports of this line, in the order of ranks from 1.
---@return string[]
function prompt.gather() end

return prompt
