--- Answers jobs with errors.
local error_form = require "moonring.serve.openai.error_form"
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.serve.refusals
local refusals = {}

-- Errors that the client can correct: their category is "user", that of others "server".
local USERS = { INVALID_ARGUMENT = true, NOT_FOUND = true, ALREADY_EXISTS = true,
  PERMISSION_DENIED = true, UNIMPLEMENTED = true, OUT_OF_RANGE = true, FAILED_PRECONDITION = true }

-- Errors after which the ranks may have stopped at different places.
local BROKEN = { ABORTED = true, UNAVAILABLE = true, DEADLINE_EXCEEDED = true, CANCELLED = true }

-- Held routes of the Tinker API, whose errors have the field `detail`. Other held routes are
-- OpenAI's.
local DETAILED = { delete_checkpoint = true }

--- Whether an error ends a service of several ranks, because they may have stopped at different
--- places.
---@param service moonring.Service
---@param why any
---@return boolean
function refusals.parts_ranks(service, why)
  return service.mesh:size() > 1 and BROKEN[errors.code(why)] == true
end

local function reply(door, job, code, message)
  if not DETAILED[job.route] then return error_form.reply(door, job, code, message) end
  local status = code == "NOT_FOUND" and 404 or USERS[code] and 422 or 503
  door:reply(job.id, status, "application/json", system.json_encode { detail = message })
end

--- Answers a job with an error. Errors that end the service are raised again.
---@param service moonring.Service
---@param job moonring.serve.Job
---@param why any
function refusals.refuse(service, job, why)
  local code = errors.code(why)
  if refusals.parts_ranks(service, why) or code == "CANCELLED" then error(why, 0) end
  if not USERS[code] then service:note(job.route .. ": " .. tostring(why)) end
  if not service.door then return end
  if job.held then return reply(service.door, job, code, errors.words(why)) end
  service.door:fail(job.id, errors.words(why), USERS[code] and "user" or "server")
end

return refusals
