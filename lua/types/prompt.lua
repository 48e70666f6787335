---@meta moonring.native.prompt

--- What the prompt (lua/moonring/prompt) is written on. Errors of all but evaluate, class_of,
--- methods and place: FAILED_PRECONDITION where no prompt is open, or (send, leave, receive,
--- report, gather) it has one rank.
---@class moonring.native.prompt
local prompt = {}

--- Whether lines are typed at a terminal; else they come from stdin as they are.
---@return boolean
function prompt.is_typed() end

--- Whether the host was started with --sandbox.
---@return boolean
function prompt.is_confined() end

--- A line that is typed at the terminal. Tab calls `complete(line, cursor)`, which gives where the
--- word before the cursor begins (from 0), what may stand for it, and these words as they are
--- listed.
---@param text string what stands before the line
---@param complete fun(line: string, cursor: integer): integer, string[], string[]
---@return string? line nil at the end, or where it was given up
---@return boolean interrupted Ctrl-C gave it up
function prompt.read_line(text, complete) end

--- Runs `fn(...)`, which Ctrl-C stops: true and what it returns, or false, the error's message
--- ("interrupted") and the calls of the user's lines that led to it ("" where the message says it
--- all).
---@param fn fun(...): any
---@param ... any
---@return boolean ended
---@return any ...
function prompt.evaluate(fn, ...) end

--- The name of a bound object's class, such as "Tensor"; "" of another value.
---@param value any
---@return string
function prompt.class_of(value) end

--- The functions of a bound class; {} where there is none of that name.
---@param class string such as "Tensor"
---@return table<string, function>
function prompt.methods(class) end

--- Where a Lua function is written: its chunk ("=moonring/run/batch") and line; "" of a bound one.
---@param fn function
---@return string source
---@return integer line
function prompt.place(fn) end

--- This rank's number.
---@return integer
function prompt.rank() end

--- How many ranks run each line.
---@return integer
function prompt.size() end

--- Rank 0: hands a line to all others.
---@param line string
function prompt.send(line) end

--- Rank 0: no more lines come; the others' receive gives nil.
function prompt.leave() end

--- The others: the next line, for as long as it takes; nil where rank 0 has left.
---@return string?
function prompt.receive() end

--- The others: this line is over, and how it went, in words for rank 0.
---@param outcome string
function prompt.report(outcome) end

--- Rank 0: what all others report of this line, in the order of ranks from 1.
---@return string[]
function prompt.gather() end

return prompt
