--- The end tokens that a model's generation_config.json names.
local system = require "moonring.native.system"

--- Reads eos_token_id: one id or several; {} if there is none.
---@param checkpoint moonring.Checkpoint
---@return integer[]
return function(checkpoint)
  local text = checkpoint:companion "generation_config.json"
  local done, said = pcall(system.json_decode, text or "{}", "generation_config.json")
  local ids = done and type(said) == "table" and said.eos_token_id
  return type(ids) == "table" and ids or type(ids) == "number" and { ids } or {}
end
