--- Paths of saved weights as clients write them: tinker://MODEL/weights/NAME. MODEL is a model_id,
-- and the second part says what was saved. In output_dir they are folders: weights/MODEL/NAME.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.serve.tinker_paths
---@field KINDS moonring.serve.PathKind[] all of them
local tinker_paths = {}

--- The kinds of saved weights, which are also folders in output_dir: weights and the optimizer's
--- state, to train further; weights to sample from; weights to be downloaded.
---@alias moonring.serve.PathKind "weights" | "sampler_weights" | "external_weights"

tinker_paths.KINDS = { "weights", "sampler_weights", "external_weights" }

local LONGEST = 128
local FORM = "tinker://MODEL/weights/NAME, tinker://MODEL/sampler_weights/NAME or "
  .. "tinker://MODEL/external_weights/NAME"

--- A path, in parts.
---@class moonring.serve.TinkerPath
---@field model string
---@field kind moonring.serve.PathKind
---@field name string

--- Refuses a name of saved weights that could not be a folder's. Errors: INVALID_ARGUMENT.
---@param name any
---@return string
function tinker_paths.check_name(name)
  local fits = type(name) == "string" and name:find "^[%w_-][%w._-]*$" and #name <= LONGEST
  if fits then return name end
  errors.fail("path: expected a name of letters, digits, '.', '_' and '-', not beginning with a ",
    "dot, of at most ", LONGEST, " characters; got '", system.visible(tostring(name)):sub(1, 200),
    "'")
end

-- Whether a text is a model_id: SESSION:train:NUMBER.
local function is_model_id(text)
  return #text <= LONGEST and text:find "^[%w_-]+:train:%d+$" ~= nil
end

--- Refuses a text that is not a model_id. Errors: INVALID_ARGUMENT.
---@param id any
---@return string
function tinker_paths.check_model(id)
  if type(id) == "string" and is_model_id(id) then return id end
  errors.fail("model_id: expected SESSION:train:NUMBER, got '",
    system.visible(tostring(id)):sub(1, 200), "'")
end

--- Whether a text begins as a path of saved weights.
---@param text string
---@return boolean
function tinker_paths.is_path(text) return text:sub(1, 9) == "tinker://" end

--- Splits a path. Errors: INVALID_ARGUMENT for one that is malformed or would lead elsewhere.
---@param text string
---@return moonring.serve.TinkerPath
function tinker_paths.parse(text)
  local model, kind, name = tostring(text):match "^tinker://([^/]+)/([^/]+)/([^/]+)$"
  local known = false
  for _, each in ipairs(tinker_paths.KINDS) do known = known or each == kind end
  if not model or not known or not is_model_id(model) then
    errors.fail("path: expected ", FORM, "; got '", system.visible(tostring(text)):sub(1, 200), "'")
  end
  return { model = model, kind = kind, name = tinker_paths.check_name(name) }
end

--- The text of a path.
---@param model string
---@param kind moonring.serve.PathKind
---@param name string
---@return string
function tinker_paths.text(model, kind, name)
  return ("tinker://%s/%s/%s"):format(model, kind, name)
end

--- The folder of a path.
---@param root string output_dir
---@param path moonring.serve.TinkerPath
---@return string
function tinker_paths.folder(root, path)
  return ("%s/%s/%s/%s"):format(root, path.kind, path.model, path.name)
end

return tinker_paths
