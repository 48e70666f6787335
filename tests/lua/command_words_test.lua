-- Words of a command: key=value, --key=value, --key value and --flag, for configurations
-- (config.command) and for options of scripts (moonring.flags). Argument: a folder for files.
local errors = require "moonring.base.errors"
local moonring = require "moonring"
local bounds = require "moonring.config.bounds"

local folder, failures = arg[1], {}
local function check(what, got, wanted)
  got = type(got) == "table" and moonring.system.json_encode(got) or tostring(got)
  if got == wanted then return end
  failures[#failures + 1] = ("%s: %s, expected %s"):format(what, got, wanted)
end

local function error_of(f, ...)
  local ok, why = pcall(f, ...)
  return ok and "none" or errors.words(why)
end

-- Each row: the words, a key, and its value.
local ROWS = {
  { "--learning_rate 1e-4", "learning_rate", "0.0001" },
  { "--learning-rate=1e-4", "learning_rate", "0.0001" },
  { "learning_rate=1e-4", "learning_rate", "0.0001" },
  { "--seed -1", "seed", "-1" },
  { "--learning_rate -1.5e-3 --seed 2", "learning_rate", "-0.0015" },
  { "--do_train --bf16", "do_train", "true" },
  { "--do_train --bf16", "bf16", "true" },
  { "--do_train seed=2", "do_train", "true" },
  { "--bf16 False --seed 2", "bf16", "false" },
  { "--no_shuffle", "_", "--no_shuffle: unknown key 'no_shuffle'" },
  { "--no-plot-loss", "plot_loss", "false" },
  { "--no_plot_loss", "plot_loss", "false" },
  { "--dataset a b,c --seed 2", "dataset", '["a","b","c"]' },
  { "--dataset a seed=2", "dataset", '["a"]' },
  { "--dataset [a,b]", "dataset", '["a","b"]' },
  { "--optim_args seed=3", "optim_args", "seed=3" },
  { "--lr_scheduler_kwargs.min_lr 1", "lr_scheduler_kwargs", '{"min_lr":"1"}' },
  { '--lr_scheduler_kwargs {"min_lr":1}', "lr_scheduler_kwargs", '{"min_lr":1}' },
  { "--cp_size 2", "sequence_parallel_size", "2" },
  { "--seed 1 --seed 2", "seed", "2" },
  { "--learning_rate", "_", "--learning_rate: expected a value" },
  { "--learning_rate --bf16", "_", "--learning_rate: expected a value" },
  { "--bf16 maybe", "_", "--bf16 maybe: bf16: expected bool, got 'maybe'" },
  { "bf16=1 seed 3", "_", "expected key=value, got 'seed'; did you mean --seed VALUE?; expected "
    .. "key=value, got '3'" },
  { "-n 4", "_", "-n 4: unknown key 'n'; it is an option of moonring: moonring -n 4 COMMAND ..." },
  { "--hf_hub_tokne secret", "_", "--hf_hub_tokne ***: unknown key 'hf_hub_tokne' (did you mean "
    .. "'hf_hub_token'?)" },
}
for _, row in ipairs(ROWS) do
  local words = {}
  for word in row[1]:gmatch "%S+" do words[#words + 1] = word end
  local ok, c = pcall(moonring.config.command, words)
  if ok then check(row[1], c[row[2]], row[3]) else check(row[1], errors.words(c), row[3]) end
end
local c = moonring.config.command { "--default_system", "- be brief" }
check("a text with a dash", c.default_system, "- be brief")

-- One error about all keys of the file and the words: unknown ones, and values of a wrong type.
local path = folder .. "/a=b.yaml"
moonring.system.write(path, "learning_rat: 1\ncutoff_len: many\nseed: 1\nbf16: 7\n")
check("all refused keys", error_of(moonring.config.command, { path, "lora_rnk=3", "--max_steps",
  "x", "stray", "--lerning-rate", "3" }), (("F:1: unknown key 'learning_rat' (did you mean "
  .. "'learning_rate'?); F:2: cutoff_len: expected int, got 'many'; F:4: bf16: expected bool, got "
  .. "'7'; lora_rnk=3: unknown key 'lora_rnk' (did you mean 'lora_rank'?); --max_steps x: "
  .. "max_steps: expected int, got 'x'; expected key=value, got 'stray'; --lerning-rate 3: unknown "
  .. "key 'lerning-rate' (did you mean 'learning_rate'?)"):gsub("F:", path .. ":")))
-- Likewise for numbers out of bounds and keys of other stages.
moonring.system.write(path, "stage: pt\nneat_packing: true\ncutoff_len: 0\n")
check("all bounds", error_of(bounds.check, moonring.config.command { path, "--max_samples", "0" }),
  ("F:3: cutoff_len: expected at least 1, got 0; max_samples: expected at least 1, got 0; F:2: "
  .. "neat_packing is for stage sft alone"):gsub("F:", path .. ":"))

-- A script's options.
local DEFAULTS = { model = moonring.required, sp = 4, resume = false, out_dir = "x" }
local words = { "--model", "a=b", "--resume", "--sp", "-2", "out-dir=y" }
check("flags", moonring.flags(DEFAULTS, words),
  '{"model":"a=b","out_dir":"y","resume":true,"sp":-2}')
check("flags refused", error_of(moonring.flags, DEFAULTS, { "--modle", "m", "sp=x", "--resume", "5",
  "stray", "--out_dir" }), "unknown key 'modle' (did you mean 'model'?); sp: expected a number, "
  .. "got 'x'; resume: expected true or false, got '5'; expected key=value, got 'stray'; "
  .. "--out_dir: expected a value; keys: model, out_dir, resume, sp")

if #failures > 0 then error(table.concat(failures, "\n"), 0) end
