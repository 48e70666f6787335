---@meta moonring.native.prompt

--- Native functions for the interactive prompt (used by lua/moonring/prompt). If no prompt is open,
--- all functions except evaluate, class_of, methods and place raise FAILED_PRECONDITION; if the
--- prompt has only one rank, send, leave, receive, report and gather do too.
---@class moonring.native.prompt
local prompt = {}

--- Whether lines are typed and edited at a terminal; false: they are read from stdin.
---@return boolean
function prompt.is_typed() end

--- Whether the program was started with --sandbox.
---@return boolean
function prompt.is_confined() end

--- Reads a line with editing at the terminal. The key Tab calls `complete(line, cursor)`, which
--- returns three values: where the word before the cursor begins (from 0), its possible
--- completions, and the same words as they are displayed.
---@param text string the text that is displayed before the line
---@param complete fun(line: string, cursor: integer): integer, string[], string[]
---@return string? line nil at the end of input or after Ctrl-C
---@return boolean interrupted whether Ctrl-C ended it
function prompt.read_line(text, complete) end

--- Runs `fn(...)` so that Ctrl-C can interrupt it. Returns true and the results of fn; or false,
--- the error's message ("interrupted" after Ctrl-C) and the call stack of the user's code ("" if
--- the message already contains it).
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

--- Where a Lua function is defined: its chunk ("=moonring/run/batch") and line; "" for a native
--- function.
---@param fn function
---@return string source
---@return integer line
function prompt.place(fn) end

--- The number of this rank.
---@return integer
function prompt.rank() end

--- Number of ranks of the prompt. Each of them runs every line.
---@return integer
function prompt.size() end

--- Rank 0: sends a line to all other ranks.
---@param line string
function prompt.send(line) end

--- Rank 0: announces that there are no more lines; `receive` then returns nil on the other ranks.
function prompt.leave() end

--- Other ranks: wait for the next line, without a time limit; nil after rank 0 has called `leave`.
---@return string?
function prompt.receive() end

--- Other ranks: report to rank 0 that this line has ended, and its outcome in words.
---@param outcome string
function prompt.report(outcome) end

--- Rank 0: gathers the other ranks' reports of this line, in the order of ranks from 1.
---@return string[]
function prompt.gather() end

return prompt
