---@meta moonring.native.watch

--- What `moonring watch` is written on: a page for browsers of this machine
--- (lua/report/page_server.h).
---@class moonring.native.watch
local watch = {}

---@class moonring.ListenOptions
---@field port? integer 0, or absent: any that is free

--- Listens on 127.0.0.1; until the server goes, SIGINT, SIGTERM and SIGHUP end `next` instead of
--- the process. Errors: UNAVAILABLE where the port is taken; PERMISSION_DENIED under --sandbox;
--- FAILED_PRECONDITION in an embedded runtime.
---@param options? moonring.ListenOptions
---@return moonring.PageServer
function watch.listen(options) end

---@class moonring.PageServer
local PageServer = {}

--- The port.
---@return integer
function PageServer:port() end

--- What a request's address must hold: ?token=TOKEN.
---@return string
function PageServer:token() end

---@class moonring.PageRequest
---@field id integer for `answer`
---@field path string "/", without the query
---@field tag string of what the browser has already; "": of nothing

--- The next request that has the token; nil where none came in time, or a signal.
---@param seconds number
---@return moonring.PageRequest?
function PageServer:next(seconds) end

---@class moonring.PageAnswer
---@field status? integer 200 where absent
---@field type? string the media type; plain text where absent
---@field body? string nothing where absent
---@field tag? string of the body, by which a browser says that it has it

--- Answers a request; the answer goes out while `next` waits.
---@param id integer
---@param answer? moonring.PageAnswer
function PageServer:answer(id, answer) end

--- Whether a signal has asked for the end.
---@return boolean
function PageServer:ended() end

function PageServer:close() end

return watch
