--- The table of the keys of a training configuration: those of LLaMA-Factory and Moonring's own.
-- Each file in this folder has some sections of it. Parsing, checks, `moonring help train`,
-- training_args.yaml, docs/keys.md and lua/types/configuration.lua all use these rows. A row is
--   { name, type, default, meaning [, choices = {..}, others = {..}] [, only = reason | ignored =
--   reason] }
-- `others` are LLaMA-Factory's choices that are refused by name; `spellings` map other words to
-- choices ("true" to "all"). Types: int, float, bool, string, list (comma-separated, or YAML's). A
-- default of `null` means that the key may be absent.
--   only     only the default is accepted; other values are refused for this reason. Used where
--            another value would change results
--   ignored  any value is accepted; for values other than the default a note states that they have
--            no effect, and why. Used for keys that affect at most speed, memory or logging
--   of       the key, or { key, value, ... }, that this key depends on: if that one is off, a note
--            states that values other than the default have no effect
--   least, most  bounds of a number, inclusive; above, below: exclusive
--   nullable null is accepted in addition to the default: the key is then absent
--   resume   what happens if a run resumes from a checkpoint that had another value: "free"
--            (nothing: results do not depend on it), "told" (it resumes with a note), absent or
--            "refused" (it is refused). A section may set it for all its rows
--   mark     a function of the configuration that returns the text that represents the value where
--            configurations are compared, such as digests of files; called if the key is set
--   own_file the path of a Lua file is accepted in addition to the choices (custom_pieces.lua)
--   stages, finetuning  stages and finetuning types that have the key; with others it is refused
--   secret   its value is never written to files or logs
--   part_of  the key that this one configures: if both are set without effect, one note is shown
--   machine  may differ between machines of a run: paths, and properties of a machine

---@class moonring.keys
---@field [integer] { title: string, rows: moonring.KeyRow[] }
---@field aliases table<string, string> alias -> key
local keys = {}

for _, file in ipairs { "model", "data", "method", "rewards", "rollouts", "optimization",
  "optimizers", "run", "trackers", "foreign" } do
  for _, section in ipairs(require("moonring.config.keys." .. file)) do
    for _, row in ipairs(section.rows) do row.resume = row.resume or section.resume end
    keys[#keys + 1] = { title = section.title, rows = section.rows }
  end
end

--- Aliases of keys: names in LLaMA-Factory 1.0, older names in LLaMA-Factory and Transformers, and
--- names in axolotl.
keys.aliases = { cp_size = "sequence_parallel_size", cp_mode = "sequence_parallel_mode",
  context_parallel_size = "sequence_parallel_size",
  new_special_tokens = "add_special_tokens", evaluation_strategy = "eval_strategy",
  dpo_beta = "pref_beta", dpo_loss = "pref_loss", dpo_ftx = "pref_ftx",
  per_gpu_train_batch_size = "per_device_train_batch_size",
  per_gpu_eval_batch_size = "per_device_eval_batch_size" }

--- Iterates over all rows in the order of help: `for row in keys.rows() do`.
---@return fun(): moonring.KeyRow?
function keys.rows()
  local section, i = 1, 0
  return function()
    i = i + 1
    while keys[section] and i > #keys[section].rows do section, i = section + 1, 1 end
    return keys[section] and keys[section].rows[i]
  end
end

--- The effect of values other than the default: "acts", "refused", or "none" (they are accepted
--- without effect, with a note).
---@param row moonring.KeyRow
---@return "acts" | "refused" | "none"
function keys.effect(row) return row.only and "refused" or row.ignored and "none" or "acts" end

--- Whether a key has an effect.
---@param row moonring.KeyRow
---@return boolean
function keys.acts(row) return keys.effect(row) == "acts" end

--- Whether a key is written to saved configurations of a run: it has an effect and is not secret.
---@param row moonring.KeyRow
---@return boolean
function keys.is_written(row) return keys.acts(row) and not row.secret end

return keys
