---@meta moonring.native.watch

--- Native functions for `moonring watch`: a local HTTP server for browsers on this machine
--- (lua/report/page_server.h).
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
---@field path string such as "/", without the query
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

--- Whether a signal has asked the server to end.
---@return boolean
function PageServer:ended() end

function PageServer:close() end

return watch
