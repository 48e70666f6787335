--- moonring plan CONFIG.yaml|tables [key=value...]: estimates a run's memory by component and the
-- longest sequence that fits, and proposes the smallest sp. Needs only the model's config.json:
-- model_name_or_path is a folder with it, or the file itself; weights, tokenizer and data may be
-- missing. Keys beyond those of train:
--   memory=80GiB    per rank (a GPU); absent: the memory of this machine per rank
--   ranks=8         absent: as many as train would start
--   device=cuda     cpu or cuda; absent: that of --device, else cuda if memory is given
--   gpus=8          ranks per machine
--   link=nvlink     between ranks of a machine, and far_link=ib between machines: GB/s or nvlink,
--                   pcie, ib, ethernet-100g, ethernet-10g, loopback; for the estimate of seconds
--   tokens=131072   the length of an example; absent: cutoff_len
--   all=true        shows every strategy in the table
-- `moonring plan tables` compares published tables of longest sequences with these estimates.
local moonring = require "moonring"
local compute = require "moonring.choices.compute"
local machine = require "moonring.base.machine"
local memory_check = require "moonring.plan.check"
local memory_facts = require "moonring.plan.facts"
local plan_tables = require "moonring.plan.tables"
local plan_text = require "moonring.plan.text"
local null = moonring.null
if arg[1] == "tables" and #arg == 1 then
  moonring.terminal.print(plan_tables.text())
  return
end
local config = moonring.config.command(arg, {
  { "memory", "string", null, "of a rank" },
  { "ranks", "int", null, "how many" },
  { "device", "string", null, "what computes", choices = { "cpu", "cuda" } },
  { "gpus", "int", null, "ranks of a machine" },
  { "link", "string", null, "between ranks of a machine" },
  { "far_link", "string", null, "between machines" },
  { "tokens", "int", null, "the length of an example" },
  { "all", "bool", false, "every strategy" },
})
moonring.config.require_keys(config, { "model_name_or_path" })
for _, name in ipairs { "ranks", "gpus", "tokens", "sequence_parallel_size" } do
  if config[name] and config[name] < 1 then
    moonring.config.fail(name, ": expected at least 1, got ", config[name])
  end
end
moonring.plan.settle(config)
local device = moonring.plan.device(config)
local ranks = config.ranks or math.max(compute.least_ranks(config),
  moonring.system.requested_ranks())
moonring.plan.check_ranks(config, ranks)
local gpus = config.gpus or math.min(ranks, 8)
local memory = config.memory and machine.bytes(config.memory, "memory")
  or machine.memory_of_rank(device, gpus)
if not memory then
  moonring.config.fail "memory: this machine does not say how much it has; expected memory=80GiB"
end
local link = config.link or (device == "cuda" and "nvlink" or "loopback")
local far_link = config.far_link or (device == "cuda" and "ib" or "ethernet-10g")
local links = { near = machine.link(link, "link"), far = machine.link(far_link, "far_link"),
  named = ("%s and, between machines, %s"):format(link, far_link) }
config.cutoff_len = config.tokens or config.cutoff_len

local checkpoint = moonring.model.open_config(config.model_name_or_path, config)
moonring.plan.check_model(config, checkpoint)
local function facts_with(changes)
  return memory_facts.run(setmetatable(changes, { __index = config }), checkpoint,
    { ranks = ranks, device = device, machine = gpus })
end
memory_check.settle_casts(config, device, facts_with, memory)
moonring.terminal.print(plan_text.whole(facts_with {},
  { name = config.model_name_or_path, memory = memory, length = config.cutoff_len, links = links,
  all = config.all, facts_with = facts_with }))
