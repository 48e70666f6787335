--- moonring version: what this is.
local moonring = require "moonring"
print("moonring " .. moonring.version .. " (LibTorch " .. moonring.system.torch_version() .. ")")
