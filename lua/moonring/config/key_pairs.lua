--- Resolves pairs of keys, directly after a configuration is read: keys that have the same meaning,
-- and keys that override others. Adds notes for keys that have no effect.
local system = require "moonring.native.system"

---@class moonring.key_pairs
local key_pairs = {}

local function is_given(c, name) return c.given[name] ~= nil and c.given[name] ~= system.null end

local function note(c, ...) c.notes[#c.notes + 1] = table.concat { ... } end

-- Resolves bf16 and pure_bf16. If both are set, LLaMA-Factory loads weights in bf16, as with
-- pure_bf16.
local function precision(c)
  if not (c.bf16 and c.pure_bf16) then return end
  c.bf16 = false
  note(c, "bf16: no effect: pure_bf16 is given too, and wins")
end

-- Resolves older names of keys of the Hugging Face Trainer.
local function older_names(c)
  if c.no_cuda then c.use_cpu = true end
  if not c.adafactor then return end
  if is_given(c, "optim") and c.optim ~= "adafactor" then
    note(c, "optim: no effect: adafactor is given too, and wins, as in the Trainer (got ", c.optim,
      ")")
  end
  c.optim = "adafactor"
end

local function warmup(c)
  local steps = c.warmup_steps or 0
  if steps > 0 and steps < 1 then
    if is_given(c, "warmup_ratio") and c.warmup_ratio > 0 then
      note(c, "warmup_ratio: no effect: warmup_steps is given too, and wins (got ", c.warmup_ratio,
        ")")
    end
    note(c, "warmup_steps: ", steps, " is a fraction of all steps, as in Transformers 5")
    c.warmup_ratio, c.warmup_steps = steps, 0
  elseif steps >= 1 and c.warmup_ratio > 0 then
    note(c, "warmup_ratio: no effect: warmup_steps is given too, and wins (got ", c.warmup_ratio,
      ")")
  end
end

local function length(c)
  if c.max_steps > 0 and is_given(c, "num_train_epochs") and c.num_train_epochs ~= 3 then
    note(c, "num_train_epochs: no effect: max_steps is given too, and wins (got ",
      c.num_train_epochs, ")")
  end
end

-- Converts optim_args from a map to the text that Transformers uses.
local function optimizer_options(c)
  if type(c.optim_args) ~= "table" then return end
  local pairs_of = {}
  for name, value in pairs(c.optim_args) do
    pairs_of[#pairs_of + 1] = ("%s=%s"):format(name, tostring(value))
  end
  c.optim_args = table.concat(pairs_of, ", ")
end

--- Merges keys that add to others, before notes about keys without effect: use_swanlab adds swanlab
--- to report_to.
---@param values table<string, any> of all keys
function key_pairs.merge(values)
  if not values.use_swanlab then return end
  local asked = values.report_to
  local joined = type(asked) == "table" and { unpack(asked) } or {}
  for _, name in ipairs(joined) do
    if name:lower() == "swanlab" then return end
  end
  joined[#joined + 1] = "swanlab"
  values.report_to = joined
end

--- Applies all other rules of this file to a checked configuration.
---@param c moonring.Configuration
function key_pairs.settle(c)
  precision(c)
  older_names(c)
  warmup(c)
  length(c)
  optimizer_options(c)
end

return key_pairs
