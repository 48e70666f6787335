---@meta moonring.native.rewards

--- Native functions for rewards (used by lua/moonring/rewards): isolated Lua states, regular
--- expressions, and external programs and services that return scores. Under --sandbox `child` and
--- `post` raise PERMISSION_DENIED.
---@class moonring.native.rewards
local rewards = {}

---@class moonring.OwnStateOptions
---@field module string a module of Moonring whose functions are called by name
---@field memory integer most bytes of the state's Lua heap
---@field memory_limit? string name of the option that set this limit, for error messages; default
---   "memory"

--- Creates an isolated Lua state with limits on time and memory. The state runs without the JIT
--- compiler, and is sandboxed if the calling state is.
---@param options moonring.OwnStateOptions
---@return moonring.OwnState
function rewards.own_state(options) end

--- Reads a file. A state that another state created may only read files that its creator may read.
---@param path string
---@return string
function rewards.read(path) end

--- Starts a program that answers each line on its stdin with a line on its stdout. Errors:
--- NOT_FOUND; PERMISSION_DENIED if the program cannot be started; FAILED_PRECONDITION in an
--- embedded runtime.
---@param command string[] the program, searched on the PATH, and its arguments
---@return moonring.ChildProcess
function rewards.child(command) end

--- Sends JSON by an HTTP or HTTPS POST, and returns the answer. Errors: UNAVAILABLE if there is no
--- answer; DEADLINE_EXCEEDED; CANCELLED; FAILED_PRECONDITION for an untrusted certificate, or if
--- libcurl is not installed; RESOURCE_EXHAUSTED for an answer of more than 64 MiB.
---@param url string "http://HOST:PORT/PATH" or https
---@param json string
---@param seconds number time limit
---@return integer code HTTP status; 200 means success
---@return string reason
---@return string body
function rewards.post(url, json, seconds) end

--- Raises INVALID_ARGUMENT if `post` would not accept the address.
---@param url string
function rewards.check_address(url) end

--- Sleeps for this many seconds, or until the run is cancelled.
---@param seconds number
function rewards.sleep(seconds) end

--- Returns the path of the program that runs reward functions of a Python file.
---@return string
function rewards.python_functions() end

--- Compiles a regular expression in PCRE2's syntax, where `.` also matches line ends, and ^ and $
--- match only at the ends of the text. Errors: INVALID_ARGUMENT, with the position in the pattern.
---@param text string
---@return moonring.TextPattern
function rewards.pattern(text) end

--- A Lua state that own_state created.
---@class moonring.OwnState
local OwnState = {}

--- Calls a function of the state's module. Arguments and results are copied; they can be nil,
--- booleans, numbers, strings, null, and tables of these. Errors: CANCELLED; INVALID_ARGUMENT for a
--- value that cannot be copied.
---@param seconds number time limit
---@param name string name of the function
---@param arguments? any[]
---@return boolean done whether the function returned in time and without error
---@return any ... the function's results if `done`; else the kind of failure ("raised", "deadline",
---   "memory"), the message and the call stack
function OwnState:call(seconds, name, arguments) end

--- Returns the lines that the state has printed since the last call.
---@return string[]
function OwnState:lines() end

function OwnState:close() end

--- A program that rewards.child started. It runs until it is closed.
---@class moonring.ChildProcess
local ChildProcess = {}

--- Sends a line and returns the line that the program answers. Errors: UNAVAILABLE if the program
--- has ended, with its exit status and the lines that it wrote to stderr; DEADLINE_EXCEEDED;
--- CANCELLED; INVALID_ARGUMENT if it answers with more than one line. After an error the program
--- must be closed.
---@param line string
---@param seconds number time limit
---@return string
function ChildProcess:ask(line, seconds) end

--- For a program that reads and writes lines at any time: sends text as fast as the program accepts
--- it, and returns the complete lines that the program has written. Does not wait. Errors:
--- UNAVAILABLE if the program has ended and all its lines were returned; RESOURCE_EXHAUSTED for a
--- line of more than 64 MiB.
---@param text string whole lines; "": nothing new
---@return string[]
function ChildProcess:exchange(text) end

--- Returns the lines that the program has written to stderr since the last call.
---@return string[]
function ChildProcess:lines() end

--- The program's process id; -1 once the program is known to have ended.
---@return integer
function ChildProcess:pid() end

--- Closes the program's stdin, and kills the program if it does not end by itself.
function ChildProcess:close() end

--- A regular expression that rewards.pattern compiled.
---@class moonring.TextPattern
local TextPattern = {}

--- Returns a list of the first match's text and of its groups, with false for a group that did not
--- match; nil if nothing matches. Errors: RESOURCE_EXHAUSTED if the search takes too long.
---@param text string
---@return (string | false)[]?
function TextPattern:find(text) end

function TextPattern:close() end

return rewards
