--- Writes the memory that `moonring plan` predicts for one rank as JSON to a file: { total, process
-- (the share of total that is not tensors), longest (the number of tokens that fit into `memory`
-- bytes) }.
--
--   moonring plan_of.lua CONFIG.yaml device=cuda ranks=1 out=FILE [memory=80GiB]
--
-- The default of `memory` is the free memory.
local moonring = require "moonring"
local machine = require "moonring.base.machine"
local memory = require "moonring.plan.memory"
local memory_facts = require "moonring.plan.facts"
local config = moonring.config.command(arg, {
  { "device", "string", "cpu", "what computes", choices = { "cpu", "cuda" } },
  { "ranks", "int", 1, "how many" },
  { "memory", "string", moonring.null, "of a rank" },
  { "out", "string", moonring.null, "the file to write" },
})
moonring.config.require_keys(config, { "model_name_or_path", "out" })
moonring.plan.settle(config)
local checkpoint = moonring.model.open_config(config.model_name_or_path)
local ranks = config.ranks
local facts = memory_facts.run(config, checkpoint,
  { ranks = ranks, device = config.device, machine = ranks })
local found = memory.predict(facts)
local bytes = config.memory and machine.bytes(config.memory, "memory")
  or machine.memory_of_rank(config.device, ranks)
moonring.system.write(config.out, moonring.system.json_encode {
  total = found.total, process = found.parts.other,
  longest = bytes and memory.longest(facts, bytes, 1024) or moonring.null,
} .. "\n")
