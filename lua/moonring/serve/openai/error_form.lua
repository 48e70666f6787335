--- Errors in OpenAI's form: { error = { message, type, param, code } } with an HTTP status.
-- Clients repeat requests that get a 5xx, 408, 409 or 429: a request that is wrong gets none of
-- these.
local field_rows = require "moonring.serve.openai.field_rows"
local request_fields = require "moonring.serve.openai.request_fields"
local system = require "moonring.native.system"

---@class moonring.serve.openai.error_form
local error_form = {}

local WRONG = { INVALID_ARGUMENT = true, UNIMPLEMENTED = true, OUT_OF_RANGE = true,
  FAILED_PRECONDITION = true, PERMISSION_DENIED = true, ALREADY_EXISTS = true, NOT_FOUND = true }

--- The status and the body for an error of a route's handler.
---@param route string
---@param code? string of the error
---@param message string
---@return integer status
---@return table body
function error_form.of(route, code, message)
  message = message:gsub("^base_model: ", "model: ") -- the field's name in this API
  local param = request_fields.of_message(message, field_rows[route] or {})
  local no_model = code == "NOT_FOUND" and param == "model"
  local kind = WRONG[code] and "invalid_request_error" or "server_error"
  return no_model and 404 or WRONG[code] and 400 or 500, { error = {
    message = message,
    type = kind,
    param = param or system.null,
    code = no_model and "model_not_found" or system.null,
  } }
end

--- Replies to a job with an error.
---@param door moonring.ServeDoor
---@param job moonring.serve.Job
---@param code? string of the error
---@param message string
function error_form.reply(door, job, code, message)
  local status, body = error_form.of(job.route, code, message)
  door:reply(job.id, status, "application/json", system.json_encode(body))
end

return error_form
