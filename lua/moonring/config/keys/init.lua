--- The keys of a training configuration: LLaMA-Factory's names and Moonring's own, in one table,
-- of which each file in this folder has some sections. From a row come parsing, checks, `moonring
-- help train`, training_args.yaml, docs/keys.md and lua/types/configuration.lua. A row is
--   { name, type, default, meaning [, choices = {..}, others = {..}] [, only = reason | ignored =
--   reason] }
-- `others` are choices of LLaMA-Factory's that are refused by name, `spellings` other words for
-- choices ("true" for "all"). Types: int, float, bool, string, list (a comma list or a YAML list).
-- `null` as a default: may be left out.
--   only     the default alone is accepted: what else the key could ask for is refused, for the
--            reason given. For whatever would change the results
--   ignored  accepted with any value; a line says that another one than the default has no effect,
--            and why. For what changes speed, memory or logging at most
--   of       the key, or { key, value, ... }, beside which alone it acts: where that is off, a line
--            says that another value than the default has no effect
--   least, most  bounds of a number, both included; above, below: not included
--   nullable null is a value beside the default: the key is then absent
--   resume   what becomes of a run that goes on from a checkpoint under another value: "free"
--            (nothing: the numbers are the same, or no one's), "told" (it goes on, and says so);
--            absent or "refused": refused. A section may say it of all its rows
--   mark     a function of the configuration: what stands for the value where configurations are
--            compared, as its files' digests; of keys that have a value alone
--   own_file the path of a Lua file is accepted beside the choices: choices/custom_pieces.lua
--   stages, finetuning  where alone it acts: elsewhere it is refused
--   secret   its value is written nowhere
--   part_of  a key without effect whose line is enough where both are given
--   machine  machines of a run may differ in it: where things lie, what a machine has

---@class moonring.keys
---@field [integer] { title: string, rows: moonring.KeyRow[] }
---@field aliases table<string, string> other names of the same keys
local keys = {}

for _, file in ipairs { "model", "data", "method", "rewards", "rollouts", "optimization",
  "optimizers", "run", "foreign", "elsewhere" } do
  for _, section in ipairs(require("moonring.config.keys." .. file)) do
    for _, row in ipairs(section.rows) do row.resume = row.resume or section.resume end
    keys[#keys + 1] = { title = section.title, rows = section.rows }
  end
end

--- Other names of the same keys: LLaMA-Factory 1.0's and older ones of its own, axolotl's, older
--- ones of Transformers.
keys.aliases = { cp_size = "sequence_parallel_size", cp_mode = "sequence_parallel_mode",
  context_parallel_size = "sequence_parallel_size",
  new_special_tokens = "add_special_tokens", evaluation_strategy = "eval_strategy",
  dpo_beta = "pref_beta", dpo_loss = "pref_loss", dpo_ftx = "pref_ftx",
  per_gpu_train_batch_size = "per_device_train_batch_size",
  per_gpu_eval_batch_size = "per_device_eval_batch_size" }

--- Every row, in the order of help: `for row in keys.rows() do`.
---@return fun(): moonring.KeyRow?
function keys.rows()
  local section, i = 1, 0
  return function()
    i = i + 1
    while keys[section] and i > #keys[section].rows do section, i = section + 1, 1 end
    return keys[section] and keys[section].rows[i]
  end
end

--- What becomes of another value than the default: "acts"; "refused"; "none": it is accepted, and a
--- line says that it has no effect.
---@param row moonring.KeyRow
---@return "acts" | "refused" | "none"
function keys.effect(row) return row.only and "refused" or row.ignored and "none" or "acts" end

--- Whether a key does anything.
---@param row moonring.KeyRow
---@return boolean
function keys.acts(row) return keys.effect(row) == "acts" end

--- Whether a key's value belongs where a run's configuration is written down: it acts, and is no
--- secret.
---@param row moonring.KeyRow
---@return boolean
function keys.is_written(row) return keys.acts(row) and not row.secret end

return keys
