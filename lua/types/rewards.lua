---@meta moonring.native.rewards

--- Native functions for rewards (used by lua/moonring/rewards): isolated Lua states, regular
--- expressions, and external programs and services that return scores. Under --sandbox `child` and
--- `post` raise PERMISSION_DENIED.
---@class moonring.native.rewards
local rewards = {}

---@class moonring.OwnStateOptions
---@field module string a module of Moonring whose functions are called by name
---@field memory integer most bytes of its heap
---@field memory_limit? string name of the option that set this limit, for messages; default
---   "memory"

--- Creates an isolated Lua state with limits on time and memory. It runs without the JIT compiler,
--- and is sandboxed if the calling state is.
---@param options moonring.OwnStateOptions
---@return moonring.OwnState
function rewards.own_state(options) end

--- Reads a file. A state that another one created may read only what its creator may.
---@param path string
---@return string
function rewards.read(path) end

--- Starts a program that answers each line with a line. Errors: NOT_FOUND; PERMISSION_DENIED if it
--- cannot be started; FAILED_PRECONDITION in an embedded runtime.
---@param command string[] the program, searched on the PATH, and its arguments
---@return moonring.ChildProcess
function rewards.child(command) end

--- POSTs JSON by HTTP or HTTPS. Errors: UNAVAILABLE if there is no answer; DEADLINE_EXCEEDED;
--- CANCELLED; FAILED_PRECONDITION for an untrusted certificate, or without libcurl;
--- RESOURCE_EXHAUSTED for an answer of more than 64 MiB.
---@param url string "http://HOST:PORT/PATH" or https
---@param json string
---@param seconds number time limit
---@return integer code HTTP status; 200: success
---@return string reason
---@return string body
function rewards.post(url, json, seconds) end

--- Checks the form of an address for `post`. Errors: INVALID_ARGUMENT.
---@param url string
function rewards.check_address(url) end

--- Sleeps; ends early if the run is cancelled.
---@param seconds number
function rewards.sleep(seconds) end

--- Compiles a regular expression in PCRE2's syntax: `.` also matches line ends; ^ and $ match only
--- at the ends of the text. Errors: INVALID_ARGUMENT, with the position in the pattern.
---@param text string
---@return moonring.TextPattern
function rewards.pattern(text) end

--- A Lua state created by own_state.
---@class moonring.OwnState
local OwnState = {}

--- Calls a function of its module. Arguments and results are copied: nil, booleans, numbers,
--- strings, null and tables of these. Errors: CANCELLED; INVALID_ARGUMENT for a value that cannot
--- be copied.
---@param seconds number time limit
---@param name string
---@param arguments? any[]
---@return boolean done
---@return any ... the function's results if `done`; else the kind of failure ("raised", "deadline",
---   "memory"), the message and the call stack
function OwnState:call(seconds, name, arguments) end

--- Lines that the state printed since the last call.
---@return string[]
function OwnState:lines() end

function OwnState:close() end

--- A program that is kept running.
---@class moonring.ChildProcess
local ChildProcess = {}

--- Sends a line and returns the line that answers it. Errors: UNAVAILABLE if the program has ended,
--- with its exit status and its messages; DEADLINE_EXCEEDED; CANCELLED; INVALID_ARGUMENT if it
--- answers with more than one line. After an error it must be closed.
---@param line string
---@param seconds number time limit
---@return string
function ChildProcess:ask(line, seconds) end

--- Lines that the program wrote to stderr since the last call.
---@return string[]
function ChildProcess:lines() end

--- Its process id; -1 once it is known to have ended.
---@return integer
function ChildProcess:pid() end

--- Closes its stdin, and kills the program if it does not end by itself.
function ChildProcess:close() end

--- A regular expression compiled by `pattern`.
---@class moonring.TextPattern
local TextPattern = {}

--- Returns the first match and its groups, false for a group that did not match; nil without a
--- match. Errors: RESOURCE_EXHAUSTED if the search takes too long.
---@param text string
---@return (string | false)[]?
function TextPattern:find(text) end

function TextPattern:close() end

return rewards
