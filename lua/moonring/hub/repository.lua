--- Provides selected files of a repository in the hub's cache. If a cached checkout has all
-- required files, it is used without asking the hub, even if the branch has moved. Otherwise the
-- hub is asked for the commit of the revision, and missing files are downloaded. If several
-- processes of a machine need files, one downloads and the others wait.
local errors = require "moonring.base.errors"
local machine = require "moonring.base.machine"
local native = require "moonring.native.hub"
local system = require "moonring.native.system"
local download_progress = require "moonring.hub.download_progress"
local terminal = require "moonring.base.terminal"

---@class moonring.hub_repository
local repository = {}

--- The result of HubQuestion.choose: which files of a repository are needed.
---@class moonring.HubChoice
---@field files string[] required files
---@field again? boolean whether to choose once more after download, because one file lists others
---@field lacks? string[] descriptions of required files that the repository does not have
---@field main? string the file to open, instead of the folder

---@class moonring.HubQuestion
---@field kind "model" | "dataset"
---@field name string ORG/NAME
---@field revision string
---@field choose fun(files: string[], read: fun(file: string): string?): moonring.HubChoice
---@field of moonring.HubOptions

-- Environment variables by which LLaMA-Factory selects other hubs.
local OTHER_HUBS = { USE_MODELSCOPE_HUB = "ModelScope", USE_OPENMIND_HUB = "OpenMind" }

--- Fails if the environment selects another hub.
---@param name string the repository, for the message
function repository.refuse_others(name)
  for variable, other in pairs(OTHER_HUBS) do
    local value = (system.environment(variable) or ""):lower()
    if value == "1" or value == "true" or value == "y" then
      errors.fail(variable, ": ", other, "'s hub is not spoken to: '", name, "' would come from a "
        .. "Hugging Face hub (HF_ENDPOINT); download it there by its own program, and name the "
        .. "folder")
    end
  end
end

local function set_of(list)
  local set = {}
  for _, each in ipairs(list) do set[each] = true end
  return set
end

-- Looks at the cached checkout of a commit. Returns the choice of files, the files that are
-- missing, and whether the list of the repository's files is known; nil if nothing is cached.
local function look(repo, commit, question)
  local listing, there = repo:listing(commit), repo:files(commit)
  if #there == 0 then return nil end
  local have, checkout = set_of(there), repo:checkout(commit)
  local function read(file) return have[file] and system.read(checkout .. "/" .. file) or nil end
  local ok, chosen = pcall(question.choose, listing or there, read)
  if not ok then
    if listing then error(chosen, 0) end
    return nil -- downloaded by another program, with other files
  end
  local lacking = {}
  for _, file in ipairs(chosen.files) do
    if not have[file] then lacking[#lacking + 1] = file end
  end
  -- If another program filled the cache, it contains no list of the repository's files.
  for _, what in ipairs(not listing and chosen.lacks or {}) do lacking[#lacking + 1] = what end
  return chosen, lacking, listing ~= nil
end

-- Returns a cached checkout that has all required files, and the choice of files. If the checkout
-- lacks some, the third result lists these.
local function cached(repo, question, closed)
  local commit = repo:commit(question.revision)
  if not commit then return nil end
  local chosen, lacking, listed = look(repo, commit, question)
  if not chosen then return nil end
  if #lacking > 0 or chosen.again then return nil, nil, lacking end
  -- If the list of the repository's files is unknown, a data set may have more files than the
  -- cache.
  if question.kind == "dataset" and not listed and not closed then return nil end
  return repo:checkout(commit), chosen
end

local function some(list)
  local text = table.concat(list, ", ", 1, math.min(3, #list))
  return #list > 3 and ("%s and %d more"):format(text, #list - 3) or text
end

local function refuse(repo, question, closed, lacking)
  local what = question.revision == "main" and "'" .. question.name .. "'"
    or ("revision '%s' of '%s'"):format(question.revision, question.name)
  closed = closed .. (closed == "--sandbox" and "" or " is set") .. ": nothing is downloaded"
  if lacking and #lacking > 0 then
    errors.raise("NOT_FOUND", closed, ", and the cache (", repo:cache(), ") has ", what,
      " without ", some(lacking))
  end
  errors.raise("NOT_FOUND", closed, ", and the cache (", repo:cache(), ") has no ", what)
end

local function download(repo, question, lacking)
  local commit, files = repo:list(question.revision)
  local checkout, progress = repo:checkout(commit), download_progress.new(question, repo)
  if lacking and #lacking > 0 then
    progress:line(("%s: the copy in %s lacks %s"):format(question.name, repo:cache(),
      some(lacking)))
  end
  local chosen
  repeat
    local have = set_of(repo:files(commit))
    chosen = question.choose(files, function(file)
      return have[file] and system.read(checkout .. "/" .. file) or nil
    end)
    repo:fetch(commit, chosen.files, function(...) progress:progress(...) end,
      function(line) progress:line(line) end)
  until not chosen.again
  repo:set_commit(question.revision, commit)
  progress:done(commit)
  return checkout, chosen
end

--- Returns the folder of a checkout with all required files, and the choice of files. Missing files
--- are downloaded.
---@param question moonring.HubQuestion
---@return string folder
---@return moonring.HubChoice chosen
function repository.checkout(question)
  repository.refuse_others(question.name)
  local of = question.of
  local repo = native.repository { kind = question.kind, name = question.name,
    cache = of.cache_dir, token = of.hf_hub_token }
  local closed = repo:closed_by()
  local ok, folder, chosen, lacking = pcall(cached, repo, question, closed)
  if not ok then
    if closed == "--sandbox" and errors.is(folder, "PERMISSION_DENIED") then
      errors.raise("PERMISSION_DENIED", "--sandbox: nothing is downloaded, and the hub's cache (",
        repo:cache(), ") is outside of the roots")
    end
    error(folder, 0)
  end
  if folder then return folder, chosen end
  if closed then refuse(repo, question, closed, lacking) end
  local lock = repo:lock(function()
    if (machine.local_rank() or 0) == 0 then
      terminal.note(question.name, ": another process downloads it: waiting for that\n")
    end
  end)
  ok, folder, chosen, lacking = pcall(cached, repo, question)
  if ok and not folder then ok, folder, chosen = pcall(download, repo, question, lacking) end
  lock:close()
  if not ok then error(folder, 0) end
  return folder, chosen
end

return repository
