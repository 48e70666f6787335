---@meta moonring.native.watch

--- Native functions for `moonring watch`: a local HTTP server for browsers on this machine
--- (lua/report/page_server.h), and what it needs to start the process that answers its chat.
---@class moonring.native.watch
local watch = {}

---@class moonring.ListenOptions
---@field port? integer 0 or absent: any free port

--- Starts a server on 127.0.0.1. Until the server is closed, SIGINT, SIGTERM and SIGHUP make `next`
--- return instead of ending the process. Errors: UNAVAILABLE if the port is in use;
--- PERMISSION_DENIED under --sandbox; FAILED_PRECONDITION in an embedded runtime.
---@param options? moonring.ListenOptions
---@return moonring.PageServer
function watch.listen(options) end

---@class moonring.FileState
---@field kind "file" | "folder" | "other"
---@field size integer bytes
---@field modified number seconds since 1970

--- The state of a file or folder; nil if it does not exist. Errors: PERMISSION_DENIED, also under
--- --sandbox; INVALID_ARGUMENT if a part of the path is a file.
---@param path string
---@return moonring.FileState?
function watch.stat(path) end

--- The path of this program.
---@return string
function watch.program() end

--- Gives this process the lowest priority, and makes it the first one that the kernel ends if
--- memory runs out. Does nothing under --sandbox and in an embedded runtime.
function watch.give_way() end

--- Makes a folder this program's working directory. Errors: NOT_FOUND; PERMISSION_DENIED under
--- --sandbox and in an embedded runtime.
---@param folder string
function watch.work_in(folder) end

--- The lines of this program's stdin. Errors: PERMISSION_DENIED under --sandbox and in an embedded
--- runtime.
---@return moonring.LineInput
function watch.input() end

---@class moonring.LineInput
local LineInput = {}

--- The next line; nil if there is none within this many seconds, or if the input has ended.
---@param seconds number
---@return string?
function LineInput:take(seconds) end

--- Whether the input has ended.
---@return boolean
function LineInput:ended() end

function LineInput:close() end

---@class moonring.PageServer
local PageServer = {}

--- The port on which the server listens.
---@return integer
function PageServer:port() end

--- The secret that a request's address must contain: ?token=TOKEN.
---@return string
function PageServer:token() end

---@class moonring.PageRequest
---@field id integer identifies the request in `answer`
---@field method "GET" | "POST"
---@field path string such as "/", without the query
---@field query table<string, string[]> the values in the address, by name, without the token
---@field type string the Content-Type header of a POST
---@field body string of a POST, at most 1 MiB
---@field tag string entity tag of the version that the browser has cached; "": none

--- Waits for the next request that contains the right token; nil after this many seconds or a
--- signal.
---@param seconds number
---@return moonring.PageRequest?
function PageServer:next(seconds) end

---@class moonring.PageAnswer
---@field status? integer default 200
---@field type? string media type; default plain text
---@field body? string default empty
---@field tag? string entity tag of the body, for the browser's cache

--- Answers the request with this id. The answer is sent while `next` waits.
---@param id integer
---@param answer? moonring.PageAnswer
function PageServer:answer(id, answer) end

--- Begins an answer that is sent in parts.
---@param id integer
---@param type string media type
function PageServer:begin(id, type) end

--- Sends a part of such an answer while `next` waits. Returns false once the client has
--- disconnected, or has not read the last megabyte.
---@param id integer
---@param part string
---@return boolean
function PageServer:send(id, part) end

--- Ends such an answer; the connection is then closed.
---@param id integer
function PageServer:finish(id) end

--- Whether a signal has asked the server to end.
---@return boolean
function PageServer:ended() end

function PageServer:close() end

return watch
