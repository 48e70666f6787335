--- Checks of output_dir, and of the checkpoints in it, before a run begins.
local checkpoint_folders = require "moonring.base.checkpoint_folders"
local config = require "moonring.config"
local errors = require "moonring.base.errors"
local output_folder = require "moonring.run.output_folder"
local resume = require "moonring.run.checkpoint.resume"
local saved_state = require "moonring.run.checkpoint.saved_state"
local system = require "moonring.native.system"

---@class moonring.folder_checks
local folder_checks = {}

--- Normalizes resume_from_checkpoint to true, auto or a folder; false becomes nil. An explicit
--- false still has an effect: folder_checks.output_dir then refuses a folder with checkpoints, from
--- which the run would resume by default.
---@param c moonring.Configuration
function folder_checks.resuming(c)
  local asked = c.resume_from_checkpoint
  local word = type(asked) == "string" and asked:lower()
  if word == "true" or word == "false" then asked = word == "true" end
  if asked ~= nil and type(asked) ~= "boolean" and type(asked) ~= "string" then
    config.fail("resume_from_checkpoint: expected true, auto or a folder, got ", tostring(asked))
  end
  c.resume_from_checkpoint = asked or nil
end

local GOES_ON = "output_dir: %s holds checkpoints, so the run resumes from the newest, as in "
  .. "LLaMA-Factory; overwrite_output_dir: true starts from the beginning"

local LOGS_ALONE = "output_dir: %s has only logs of a run that saved nothing: the run starts "
  .. "from the beginning"

-- The newest step with a checkpoint from which a run can resume.
local function newest_checkpoint(dir)
  for _, step in ipairs(checkpoint_folders.list(dir)) do
    if checkpoint_folders.resumable(dir, step) then return step end
  end
end

-- Handles an output_dir that is not empty. If resume_from_checkpoint is absent, the run resumes
-- from the newest checkpoint there. The folder is refused if it has no checkpoint, or if
-- resume_from_checkpoint is false.
local function full_folder(c)
  local goes_on = c.resume_from_checkpoint or resume.restarted() or not c.do_train
  if goes_on or c.overwrite_output_dir or output_folder.is_empty(c.output_dir) then return end
  if output_folder.has_logs_alone(c.output_dir) then
    c.notes[#c.notes + 1] = LOGS_ALONE:format(c.output_dir)
    return
  end
  local newest = newest_checkpoint(c.output_dir)
  local said = c.given.resume_from_checkpoint
  if newest and (said == nil or said == system.null) then
    c.resume_from_checkpoint, c.resumes_by_itself = true, true
    c.notes[#c.notes + 1] = GOES_ON:format(c.output_dir)
    return
  end
  local step = not newest and checkpoint_folders.list(c.output_dir)[1]
  local offer = newest
    and ("; resume_from_checkpoint: true resumes from its checkpoint-%d"):format(newest)
    or step and "; no run can resume from "
      .. (saved_state.broken(("%s/checkpoint-%d"):format(c.output_dir, step)) or "it") or ""
  config.fail("output_dir: ", c.output_dir,
    " is not empty; overwrite_output_dir: true writes into it", offer)
end

--- Refuses an output_dir that is not writable, or that has other content. Writes nothing.
---@param c moonring.Configuration
function folder_checks.output_dir(c)
  if system.exists(c.output_dir) and not system.is_folder(c.output_dir) then
    config.fail("output_dir: ", c.output_dir, " is a file, expected a folder")
  end
  local ok, why = pcall(system.check_make_folder, c.output_dir)
  if not ok then config.fail("output_dir: ", errors.words(why)) end
  full_folder(c)
end

return folder_checks
