--- moonring version: prints the versions of Moonring and LibTorch.
local moonring = require "moonring"
print("moonring " .. moonring.version .. " (LibTorch " .. moonring.system.torch_version() .. ")")
