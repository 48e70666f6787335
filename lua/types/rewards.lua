---@meta moonring.native.rewards

--- What rewards (lua/moonring/rewards) are written on: a Lua state of their own, patterns, programs
--- and services that score. Errors of child and post under --sandbox: PERMISSION_DENIED.
---@class moonring.native.rewards
local rewards = {}

---@class moonring.OwnStateOptions
---@field module string one of Moonring's own, whose functions are called by name
---@field memory integer bytes that its heap may take
---@field memory_limit? string what set them, for messages; "memory" where absent

--- A Lua state whose time and memory are limited, interpreted, confined where this one is.
---@param options moonring.OwnStateOptions
---@return moonring.OwnState
function rewards.own_state(options) end

--- A file's text. In a state that another one made: where that one may read it.
---@param path string
---@return string
function rewards.read(path) end

--- Starts a program that answers lines. Errors: NOT_FOUND, PERMISSION_DENIED where it cannot be
--- started; FAILED_PRECONDITION in an embedded runtime.
---@param command string[] the program, looked for on the path, and its arguments
---@return moonring.ChildProcess
function rewards.child(command) end

--- POSTs JSON by HTTP or HTTPS. Errors: UNAVAILABLE where nobody answers; DEADLINE_EXCEEDED;
--- CANCELLED; FAILED_PRECONDITION for a certificate that is not trusted, or without libcurl;
--- RESOURCE_EXHAUSTED for an answer of more than 64 MiB.
---@param url string "http://HOST:PORT/PATH", or https
---@param json string
---@param seconds number that it may take
---@return integer code 200: all is well
---@return string reason
---@return string body
function rewards.post(url, json, seconds) end

--- Refuses (INVALID_ARGUMENT) what `post` takes for no address.
---@param url string
function rewards.check_address(url) end

--- Waits, unless the run is cancelled.
---@param seconds number
function rewards.sleep(seconds) end

--- A regular expression in PCRE2's syntax: `.` matches line ends too, ^ and $ are the text's own
--- ends. Errors: INVALID_ARGUMENT, with the place.
---@param text string
---@return moonring.TextPattern
function rewards.pattern(text) end

--- See own_state.
---@class moonring.OwnState
local OwnState = {}

--- Calls a function of its module. Values go over as copies: nil, booleans, numbers, strings, null
--- and tables of them. Errors: CANCELLED; INVALID_ARGUMENT for a value that cannot go over.
---@param seconds number that it may take
---@param name string
---@param arguments? any[]
---@return boolean done
---@return any ... what it returns; else what ended it ("raised", "deadline", "memory"), the
---   message, the calls that led there
function OwnState:call(seconds, name, arguments) end

--- What was printed there since the last time, line by line.
---@return string[]
function OwnState:lines() end

function OwnState:close() end

--- A program that is kept running.
---@class moonring.ChildProcess
local ChildProcess = {}

--- The line that answers a line. Errors: UNAVAILABLE where it has ended, with how and what it said;
--- DEADLINE_EXCEEDED; CANCELLED; INVALID_ARGUMENT where it says more than a line. After any of them
--- it is to be closed.
---@param line string
---@param seconds number that it may take
---@return string
function ChildProcess:ask(line, seconds) end

--- What it wrote on its stderr since the last time, line by line.
---@return string[]
function ChildProcess:lines() end

--- Its number; -1 once it is known to have ended.
---@return integer
function ChildProcess:pid() end

--- Closes its stdin, and kills it where it does not end by itself.
function ChildProcess:close() end

--- See pattern.
---@class moonring.TextPattern
local TextPattern = {}

--- The first match and its groups, false for a group that took no part; nil where there is none.
--- Errors: RESOURCE_EXHAUSTED where the search takes too long.
---@param text string
---@return (string | false)[]?
function TextPattern:find(text) end

function TextPattern:close() end

return rewards
