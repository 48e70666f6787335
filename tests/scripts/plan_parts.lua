--- The bytes of tensors that `moonring plan` predicts for a rank on a GPU, as JSON in a file: {
-- total, moment, parts }. They do not include memory that CUDA and its libraries take themselves.
--
--   moonring plan_parts.lua CONFIG.yaml ranks=1 out=FILE
local moonring = require "moonring"
local memory = require "moonring.plan.memory"
local memory_check = require "moonring.plan.check"
local memory_facts = require "moonring.plan.facts"
local config = moonring.config.command(arg, {
  { "ranks", "int", 1, "how many" },
  { "out", "string", moonring.null, "the file to write" },
})
moonring.config.require_keys(config, { "model_name_or_path", "out" })
moonring.plan.settle(config)
local checkpoint = moonring.model.open_config(config.model_name_or_path)
local given = { ranks = config.ranks, device = "cuda", machine = config.ranks }
local function facts_with(changes)
  return memory_facts.run(setmetatable(changes, { __index = config }), checkpoint, given)
end
memory_check.settle_casts(config, "cuda", facts_with, math.huge)
local found = memory.predict(facts_with {})
local parts = found.parts
moonring.system.write(config.out, moonring.system.json_encode {
  total = found.total - parts.other, moment = found.moment, parts = parts,
} .. "\n")
