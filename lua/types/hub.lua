---@meta moonring.native.hub

--- Native functions for models and data sets that are stored on a hub (used by lua/moonring/hub):
--- repositories in the local cache, in huggingface_hub's layout, and downloads into it. The
--- environment variables HF_ENDPOINT, HF_HUB_CACHE, HF_HOME, HF_TOKEN, HF_HUB_OFFLINE and others
--- configure it (lua/hub/settings.h).
---@class moonring.native.hub
local hub = {}

---@class moonring.RepositoryOptions
---@field kind "model" | "dataset"
---@field name string ORG/NAME
---@field cache? string folder of the cache; default: the one that the environment variables name
---@field token? string access token; default: the one that the environment variables name

--- Returns a handle to a repository, without contacting the hub. Errors: INVALID_ARGUMENT for an
--- invalid name.
---@param options moonring.RepositoryOptions
---@return moonring.Repository
function hub.repository(options) end

---@class moonring.Repository
local Repository = {}

--- The commit to which a branch or tag pointed when it was last downloaded; nil if it was not
--- downloaded. A commit is returned unchanged.
---@param revision string
---@return string?
function Repository:commit(revision) end

--- Records that the revision points to this commit and that all its files are downloaded.
---@param revision string
---@param commit string
function Repository:set_commit(revision, commit) end

--- The cached files of a commit, as sorted paths in the repository.
---@param commit string
---@return string[]
function Repository:files(commit) end

--- The names of all files of a commit, as the hub listed them earlier; nil if the hub was never
--- asked for them.
---@param commit string
---@return string[]?
function Repository:listing(commit) end

--- The folder of a commit in the cache.
---@param commit string
---@return string
function Repository:checkout(commit) end

--- The folder of the cache.
---@return string
function Repository:cache() end

--- The hub's address.
---@return string
function Repository:endpoint() end

--- The option or environment variable that forbids downloads, such as "--sandbox"; nil if they are
--- allowed.
---@return string?
function Repository:closed_by() end

--- Asks the hub for a revision's commit and the names of its files, and caches the list. Errors
--- have a text that says what to do: NOT_FOUND, PERMISSION_DENIED (a missing token; a gated
--- repository; --sandbox), UNAVAILABLE (no answer after retries), FAILED_PRECONDITION (offline
--- mode; libcurl is not installed; the server is not a hub), CANCELLED.
---@param revision string
---@return string commit
---@return string[] files
function Repository:list(revision) end

--- Downloads those of the given files that are not in the cache, several at the same time. Partial
--- downloads are continued. Errors: as `list`; RESOURCE_EXHAUSTED (a full disk), DATA_LOSS (a wrong
--- checksum).
---@param commit string
---@param files string[]
---@param on_progress? fun(bytes: integer, total: integer, fetched: integer) called about ten times
---   a second; bytes: those on disk, total: of all given files, fetched: those that this call
---   downloaded
---@param on_line? fun(line: string) called with messages such as a retry
function Repository:fetch(commit, files, on_progress, on_line) end

--- Locks the repository for other processes on this machine; waits while another process has the
--- lock. Closing the returned handle releases the lock.
---@param on_wait? fun() called once if waiting takes some seconds
---@return moonring.RepositoryLock
function Repository:lock(on_wait) end

function Repository:close() end

--- The lock that Repository:lock returns.
---@class moonring.RepositoryLock
local RepositoryLock = {}

function RepositoryLock:close() end

return hub
