-- Lines from public LLaMA-Factory configurations, and how they are handled: a value of another type
-- than the key's is accepted if its meaning is clear; an unsupported logger or hub is mentioned
-- once and the run continues; of two keys with the same meaning one is used, and a line says which.
-- In a file and on the command line. Argument: a folder for files.
local errors = require "moonring.base.errors"
local moonring = require "moonring"
local checks = require "moonring.run.checks"

local system = moonring.system
local path = arg[1] .. "/public.yaml"
local BASE = { model_name_or_path = "m", dataset = "rows", dataset_dir = arg[1],
  template = "chatml", output_dir = arg[1] .. "/out", overwrite_output_dir = "true",
  do_train = "true" }

local function checked(c)
  checks.train(c)
  return c
end

-- Loads a configuration with these lines in a file. Returns it; or nil and the reason why it is
-- rejected.
local function of_file(lines)
  local all, has = { unpack(lines) }, {}
  for _, line in ipairs(lines) do has[line:match "^[%w_]+"] = true end
  for key, value in pairs(BASE) do
    if not has[key] then all[#all + 1] = key .. ": " .. value end
  end
  system.write(path, table.concat(all, "\n") .. "\n")
  local ok, c = pcall(function() return checked(moonring.config.load(path, {})) end)
  if ok then return c end
  return nil, errors.words(c)
end

-- Loads a configuration with these lines as arguments. Returns the same.
local function of_words(lines)
  local words = {}
  for key, value in pairs(BASE) do words[#words + 1] = key .. "=" .. value end
  for _, line in ipairs(lines) do
    words[#words + 1] = line:gsub("^([%w_]+): *", "%1=")
  end
  local ok, c = pcall(function() return checked(moonring.config.load(nil, words)) end)
  if ok then return c end
  return nil, errors.words(c)
end

local function shown(value)
  return type(value) == "table" and system.json_encode(value) or tostring(value)
end

-- Each entry has lines, the expected values of keys ("nil" for an absent key), and how the notes
-- begin.
local KINDS = {
  { { "report_to: wandb" }, { report_to = '["wandb"]' }, {} },
  { { "report_to: [comet_ml, tensorboard, clearml, swanlab]" }, {},
    { "report_to: nothing is sent to comet_ml, clearml," } },
  { { "report_to: all", "run_name: mine" }, { run_name = "mine" }, {} },
  { { "report_to: null" }, { report_to = "nil" }, {} },
  { { "report_to: no" }, {}, {} },
  { { "run_name: 20240101" }, { run_name = "20240101" },
    { "run_name: no effect: it acts with report_to" } },
  { { "use_swanlab: true", "swanlab_project: x", "swanlab_api_key: SECRET", "swanlab_mode: local" },
    { report_to = '["swanlab"]', swanlab_mode = "local" }, {} },
  { { "use_swanlab: true", "report_to: [wandb, swanlab]", "run_name: mine" },
    { report_to = '["wandb","swanlab"]' }, {} },
  { { "report_to: wandb", "swanlab_project: x" }, {},
    { "swanlab_project: no effect: it acts with report_to: swanlab (got x)" } },
  { { "push_to_hub: True", "hub_model_id: a/b", "hub_strategy: end", "hub_token: SECRET",
    "hub_private_repo: true" }, {}, { "push_to_hub: no effect: nothing is sent to a hub" } },
  { { "hub_token: SECRET", "hub_model_id: a/b", "push_to_hub_model_id: b" }, {},
    { "hub_model_id, hub_token, push_to_hub_model_id: no effect: it acts with push_to_hub" } },
  { { "hub_token: SECRET" }, {}, { "hub_token: no effect: it acts with push_to_hub alone" } },
  { { "export_hub_model_id: a/b" }, {}, { "export_hub_model_id: no effect: nothing is sent" } },
  { { "logging_steps: 0.5" }, { logging_steps = "0.5" }, {} },
  { { "save_steps: 0.2", "logging_steps: 1e1" }, { save_steps = "0.2", logging_steps = "10" }, {} },
  { { "eval_steps: 0.1", "eval_strategy: steps", "val_size: 0.1" }, { eval_steps = "0.1" }, {} },
  { { "warmup_steps: 10", "warmup_ratio: 0.1" }, { warmup_steps = "10" },
    { "warmup_ratio: no effect: warmup_steps is given too, and wins (got 0.1)" } },
  { { "warmup_steps: 0.1" }, { warmup_steps = "0", warmup_ratio = "0.1" },
    { "warmup_steps: 0.1 is a fraction of all steps" } },
  { { "max_steps: 1e3", "num_train_epochs: 2.0" }, { max_steps = "1000" },
    { "num_train_epochs: no effect: max_steps is given too, and wins (got 2)" } },
  { { "cutoff_len: 32_768", "max_samples: 1_00_0" }, { cutoff_len = "32768", max_samples = "1000" },
    {} },
  { { "seed: 0x10", "lora_rank: 16.0", 'logging_steps: "5"' },
    { seed = "16", lora_rank = "16", logging_steps = "5" }, {} },
  { { 'learning_rate: "1e-4"', "weight_decay: 1_0.5e-1" },
    { learning_rate = "0.0001", weight_decay = "1.05" }, {} },
  { { "bf16: True", "plot_loss: yes", "disable_shuffling: on", "mask_history: off" },
    { bf16 = "true", plot_loss = "true", disable_shuffling = "true", mask_history = "false" }, {} },
  { { "bf16: true", "pure_bf16: true" }, { bf16 = "false", pure_bf16 = "true" },
    { "bf16: no effect: pure_bf16 is given too, and wins" } },
  { { "evaluation_strategy: no", "dpo_beta: 0.2", "stage: dpo" },
    { eval_strategy = "no", pref_beta = "0.2" }, {} },
  { { "save_strategy: No", "logging_strategy: Steps", "lr_scheduler_type: Cosine" },
    { save_strategy = "no", logging_strategy = "steps", lr_scheduler_type = "cosine" }, {} },
  { { "optim: muon", "optim_args: {momentum: 0.9}" }, { optim_args = "momentum=0.9" }, {} },
  { { "lr_scheduler_type: cosine_with_min_lr", 'lr_scheduler_kwargs: {"min_lr": "1e-6"}' }, {},
    {} },
  { { "no_cuda: true", "adafactor: true" }, { use_cpu = "true", optim = "adafactor" }, {} },
  { { "ddp_timeout: 180_000_000", "deepspeed: null", "resume_from_checkpoint: null" },
    { ddp_timeout = "180000000", deepspeed = "nil", resume_from_checkpoint = "nil" }, {} },
  { { "flash_attn: fa2", "use_unsloth: true", "enable_torch_profiler: true" }, {},
    { "enable_torch_profiler: no effect", "flash_attn: no effect", "use_unsloth: no effect" } },
  { { "adapter_name_or_path: ''", "fsdp: ''", "eval_dataset: []" },
    { adapter_name_or_path = "nil", fsdp = "nil", eval_dataset = "nil" }, {} },
}

local failures = {}
local function fail(...) failures[#failures + 1] = table.concat({ ... }, ": ") end

local function compare(name, c, why, kind)
  if not c then return fail(name, "refused", why) end
  for key, wanted in pairs(kind[2]) do
    if shown(c[key]) ~= wanted then fail(name, key .. " is " .. shown(c[key]), "not " .. wanted) end
  end
  if #c.notes ~= #kind[3] then fail(name, "notes", table.concat(c.notes, " | ")) end
  for i, wanted in ipairs(kind[3]) do
    local note = c.notes[i] or ""
    if note:sub(1, #wanted) ~= wanted then fail(name, "note", note, "not", wanted) end
    if note:find "SECRET" then fail(name, "shows a secret", note) end
  end
end

for _, kind in ipairs(KINDS) do
  local name = table.concat(kind[1], ", ")
  local c, why = of_file(kind[1])
  compare("file: " .. name, c, why, kind)
  local bare = name:find "''" or name:find "%[%]"
  if not bare then
    c, why = of_words(kind[1])
    compare("words: " .. name, c, why, kind)
  end
end

-- An unclear value is rejected with the key, the line and the given value.
local function refused(lines, ...)
  local c, why = of_file(lines)
  if c then return fail(table.concat(lines, ", "), "is taken") end
  for _, part in ipairs { ... } do
    if not why:find(part, 1, true) then fail(table.concat(lines, ", "), why, "lacks", part) end
  end
end
refused({ "stage: sft", "bf16: true", "fp16: true" }, "bf16 and fp16 exclude one another")
refused({ "cutoff_len: 32k" }, path .. ":1: cutoff_len: expected int, got '32k'")
refused({ "learning_rate: .nan" }, path .. ":1: learning_rate: expected float, got '.nan'")
refused({ "logging_steps: 1.5" }, path .. ":1: logging_steps: expected a part of all steps below 1")
refused({ "lr_scheduler_kwargs: {num_warmup_steps: 1}" }, path .. ":1: lr_scheduler_kwargs: "
  .. "num_warmup_steps: set the key warmup_steps instead")
refused({ "report_to: wandbb" }, path .. ":1: report_to: expected none", "(did you mean 'wandb'?)")
refused({ "optim: lion" }, path .. ":1: optim: expected adamw_torch | ",
  "got 'lion' (did you mean 'lion_32bit' or 'paged_lion_32bit'?)")
refused({ "stage: ppo" }, path .. ":1: not supported yet: stage: ppo; expected pt | sft | ")
refused({ "dataset: row" }, path .. ":1: dataset: ", "no data set 'row' (did you mean 'rows'?)")

-- An entry of a map is given by its path, and merged into the file's map as in OmegaConf.
system.write(path, "lr_scheduler_kwargs: {num_cycles: 2, min_lr: 1}\n")
local c = moonring.config.load(path, { "lr_scheduler_kwargs.min_lr=0.5" })
local kwargs = system.json_encode(c.lr_scheduler_kwargs)
if kwargs ~= '{"min_lr":"0.5","num_cycles":2}' then fail("merged", kwargs) end

if #failures > 0 then error(table.concat(failures, "\n", 1, math.min(20, #failures)), 0) end
