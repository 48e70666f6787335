---@meta moonring.native.hub

--- What models and data by their names on a hub (lua/moonring/hub) are written on: repositories in
--- the hub's cache, as huggingface_hub lays it out, and downloads into it. By the environment:
--- HF_ENDPOINT, HF_HUB_CACHE, HF_HOME, HF_TOKEN, HF_HUB_OFFLINE and the like (lua/hub/settings.h).
---@class moonring.native.hub
local hub = {}

---@class moonring.RepositoryOptions
---@field kind "model" | "dataset"
---@field name string ORG/NAME
---@field cache? string the folder of the cache; the environment's where absent
---@field token? string the environment's where absent

--- A repository, which nobody is asked about yet. Errors: INVALID_ARGUMENT for what is no name.
---@param options moonring.RepositoryOptions
---@return moonring.Repository
function hub.repository(options) end

---@class moonring.Repository
local Repository = {}

--- The commit that a branch or a tag stood for when it was last downloaded; a commit is itself. Nil
--- where it was not.
---@param revision string
---@return string?
function Repository:commit(revision) end

--- Says so: what was downloaded is whole.
---@param revision string
---@param commit string
function Repository:set_commit(revision, commit) end

--- The files of a commit that are in the cache, by their paths in the repository, sorted.
---@param commit string
---@return string[]
function Repository:files(commit) end

--- All files of a commit, where the hub was asked for them before.
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

--- Where the hub is.
---@return string
function Repository:endpoint() end

--- What forbids downloads: "--sandbox", or the environment variable. Nil: nothing.
---@return string?
function Repository:closed_by() end

--- Asks the hub for a revision's commit and its files, and remembers these. Errors, in words that
--- say what to do: NOT_FOUND, PERMISSION_DENIED (a token is wanted; gated; --sandbox), UNAVAILABLE
--- (nobody to be reached, after retries), FAILED_PRECONDITION (offline; no libcurl; what answers is
--- no hub), CANCELLED.
---@param revision string
---@return string commit
---@return string[] files
function Repository:list(revision) end

--- Downloads those files of a commit that are not in the cache, several at once, each behind what
--- is there of it. Errors: as `list`; RESOURCE_EXHAUSTED (a full disk), DATA_LOSS (a wrong
--- checksum).
---@param commit string
---@param files string[]
---@param on_progress? fun(bytes: integer, total: integer, fetched: integer) some ten times a
---   second: how much of all of it is there, and came now
---@param on_line? fun(line: string) of what is worth one: a retry
function Repository:fetch(commit, files, on_progress, on_line) end

--- Waits until no other process of this machine holds it. Closing the handle lets the next one in.
---@param on_wait? fun() called once where that takes some seconds
---@return moonring.RepositoryLock
function Repository:lock(on_wait) end

function Repository:close() end

--- See Repository:lock.
---@class moonring.RepositoryLock
local RepositoryLock = {}

function RepositoryLock:close() end

return hub
