---@meta moonring.native.hub

--- Native functions for models and data sets from a hub (used by lua/moonring/hub): repositories in
--- the hub's local cache, in huggingface_hub's layout, and downloads into it. Configured by the
--- environment variables HF_ENDPOINT, HF_HUB_CACHE, HF_HOME, HF_TOKEN, HF_HUB_OFFLINE and others
--- (lua/hub/settings.h).
---@class moonring.native.hub
local hub = {}

---@class moonring.RepositoryOptions
---@field kind "model" | "dataset"
---@field name string ORG/NAME
---@field cache? string folder of the cache; default: from the environment
---@field token? string default: from the environment

--- Returns a handle to a repository, without contacting the hub. Errors: INVALID_ARGUMENT for an
--- invalid name.
---@param options moonring.RepositoryOptions
---@return moonring.Repository
function hub.repository(options) end

---@class moonring.Repository
local Repository = {}

--- The commit to which a branch or tag pointed when it was last downloaded; a commit is returned
--- unchanged. Nil if it was not downloaded.
---@param revision string
---@return string?
function Repository:commit(revision) end

--- Records that the revision points to this commit and is downloaded completely.
---@param revision string
---@param commit string
function Repository:set_commit(revision, commit) end

--- The cached files of a commit, as sorted paths in the repository.
---@param commit string
---@return string[]
function Repository:files(commit) end

--- All files of a commit, as the hub listed them earlier; nil if it was not asked.
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

--- Asks the hub for a revision's commit and its files, and caches the list. Errors, with a text
--- that says what to do: NOT_FOUND, PERMISSION_DENIED (a token is required; gated repository;
--- --sandbox), UNAVAILABLE (no answer after retries), FAILED_PRECONDITION (offline mode; no
--- libcurl; the server is not a hub), CANCELLED.
---@param revision string
---@return string commit
---@return string[] files
function Repository:list(revision) end

--- Downloads the given files of a commit that are not in the cache, several at the same time;
--- partial downloads are continued. Errors: as `list`; RESOURCE_EXHAUSTED (a full disk), DATA_LOSS
--- (a wrong checksum).
---@param commit string
---@param files string[]
---@param on_progress? fun(bytes: integer, total: integer, fetched: integer) called about ten times
---   a second: bytes already present, bytes in total, and bytes downloaded by this call
---@param on_line? fun(line: string) called with messages such as a retry
function Repository:fetch(commit, files, on_progress, on_line) end

--- Locks the repository on this machine; waits while another process has the lock. Closing the
--- handle releases it.
---@param on_wait? fun() called once if waiting takes some seconds
---@return moonring.RepositoryLock
function Repository:lock(on_wait) end

function Repository:close() end

--- See Repository:lock.
---@class moonring.RepositoryLock
local RepositoryLock = {}

function RepositoryLock:close() end

return hub
