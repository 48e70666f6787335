--- Checks of a training configuration before anything is loaded, one function per subject. An error
-- ends the run with a one-line message.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local bounds = require "moonring.config.bounds"
local config = require "moonring.config"
local data = require "moonring.native.data"
local dataset_names = require "moonring.data.dataset_names"
local datasets = require "moonring.data.datasets"
local engines = require "moonring.config.engines"
local errors = require "moonring.base.errors"
local evaluation_checks = require "moonring.run.evaluation_checks"
local folder_checks = require "moonring.run.folder_checks"
local optimizers = require "moonring.choices.optimizers"
local objective = require "moonring.choices.objective"
local custom_data = require "moonring.data.custom_data"
local custom_pieces = require "moonring.choices.custom_pieces"
local packing = require "moonring.model.packing"
local placed = require "moonring.config.placed"
local prefixes = require "moonring.choices.prefixes"
local products = require "moonring.choices.products"
local compute = require "moonring.choices.compute"
local reference_checks = require "moonring.run.reference_checks"
local schedules = require "moonring.choices.schedules"
local stages_of = require "moonring.choices.stages"
local step_range = require "moonring.config.step_range"
local strategies = require "moonring.choices.strategies"
local system = require "moonring.native.system"
local tasks = require "moonring.config.tasks"
local trackers = require "moonring.report.trackers"

---@class moonring.checks
local checks = {}

local function numbers(c)
  bounds.check(c)
  for _, name in ipairs { "logging_steps", "eval_steps", "save_steps", "warmup_steps" } do
    local value = c[name]
    if value and name ~= "warmup_steps" and value <= 0
      or value and value >= 1 and value ~= math.floor(value) then
      config.fail(name, ": expected a part of all steps below 1 or a whole number, got ", value)
    end
  end
  local precision = compute.precision(c)
  if c.residual_dtype == "bf16" and precision ~= "bf16" and precision ~= "pure_bf16" then
    config.fail("residual_dtype: bf16 is for bf16 or pure_bf16: with ", precision,
      " nothing else is rounded to it")
  end
  if c.activation_offload and compute.recompute(c) == "none" then
    config.fail("activation_offload is for recompute: block or selective: with recompute: none "
      .. "nothing waits that could be put away")
  end
  local _, idle = compute.activation_place(c, compute.device(c))
  c.notes[#c.notes + 1] = idle
  if c.activation_dir and c.activation_offload ~= "disk" then
    config.fail "activation_dir is for activation_offload: disk alone"
  end
  schedules.open(c, math.max(1, c.max_steps)):close()
end

-- Checks a custom objective that is a table. One that is a function is called, and checked, only
-- when there is a model.
local function custom_objective(c)
  local own = custom_pieces.of(c, "objective")
  if not own or type(own.value) == "function" then return end
  local ok, why = pcall(objective.check, own.value)
  if not ok then custom_pieces.refuse(own, "objective", errors.words(why)) end
end

-- Checks the keys of the stage (choices/stages), and keys that depend on each other.
local function stages(c)
  stages_of.of(c).check(c)
  reference_checks.keys(c)
  prefixes.check(c)
  if c.ref_model_adapters and not c.ref_model then
    config.fail "ref_model_adapters: expected a ref_model beside it"
  end
  if c.label_smoothing_factor > 0 and stages_of.of(c).documents > 1 then
    config.fail("label_smoothing_factor is for stages pt and sft alone; pairs have "
      .. "dpo_label_smoothing")
  end
end

local function finetuning(c)
  if c.finetuning_type == "oft" and (c.oft_rank == 0) == (c.oft_block_size == 0) then
    local key = c.given.oft_rank == nil and "oft_block_size" or "oft_rank"
    local other = key == "oft_rank" and "oft_block_size" or "oft_rank"
    config.fail(key, ": expected it or ", other, " above 0 and the other one 0, got ", c[key],
      " and ", c[other])
  end
  if c.pissa_init and c.lora_dropout > 0 then
    config.fail("lora_dropout: expected 0 with pissa_init, whose adapter is the larger part of the "
      .. "weights, got ", c.lora_dropout)
  end
  if c.pissa_convert and c.use_dora then
    config.fail("pissa_convert: a DoRA adapter is not converted, as by PEFT; ",
      "expected use_dora: false")
  end
  if c.pissa_convert and not c.pissa_init and not c.adapter_name_or_path then
    config.fail "pissa_convert: expected pissa_init beside it"
  end
  if c.train_from_scratch and adapter_kinds.has(c) then
    config.fail("train_from_scratch: an adapter does not teach weights that know nothing; expected "
      .. "finetuning_type: full or freeze, got ", c.finetuning_type)
  end
  if c.finetuning_type == "freeze" and c.freeze_trainable_layers == 0 then
    config.fail("freeze_trainable_layers: expected the last n layers (above 0) or the first -n "
      .. "(below 0), got 0")
  end
end

local function states(c)
  bounds.check(c) -- again, as another engine's settings may have set zero_stage
  optimizers.check(c)
  if c.offload_dir and c.offload_optimizer ~= "disk" then
    config.fail("offload_dir is for offload_optimizer: disk alone")
  end
  if c.offload_dir and not system.is_folder(c.offload_dir) then
    config.fail("offload_dir: ", c.offload_dir, " is no folder")
  end
  if c.zero_stage > 0 and c.zero_group == "sp" and c.sequence_parallel_size == 1 then
    c.notes[#c.notes + 1] = "zero_group: sp: with sequence_parallel_size 1 each rank holds "
      .. "everything"
  end
  if c.zero_stage == 3 and (c.disable_gradient_checkpointing or c.recompute == "none") then
    c.notes[#c.notes + 1] = "zero_stage: 3: without recompute each forward keeps the weights that "
      .. "it gathered until its backward"
  end
end

-- Refuses keys that cannot be combined with streaming, because they need the number of rows.
local function streaming(c)
  if not c.streaming then return end
  if c.group_by_length then
    config.fail("group_by_length and streaming exclude one another: an order by length requires "
      .. "all examples")
  end
  if c.max_samples then config.fail "max_samples and streaming exclude one another" end
  if c.val_size > 1e-6 and c.val_size < 1 then
    config.fail("val_size: expected a number of rows with streaming, not a part of them, got ",
      c.val_size)
  end
  if custom_data.is_wanted(c) or c.tokenized_path then return end -- the rest is about files
  if c.buffer_size < 1 then config.fail("buffer_size: expected at least 1, got ", c.buffer_size) end
  if c.dataset and #c.dataset > 1 and c.mix_strategy == "concat" then
    c.notes[#c.notes + 1] = "streaming: the data sets are read one after another, in another "
      .. "order each pass; a mix_strategy that interleaves mixes them"
  end
  if c.disable_shuffling then
    c.notes[#c.notes + 1] = "disable_shuffling: a stream is shuffled all the same, as in "
      .. "LLaMA-Factory; buffer_size: 1 keeps the rows of a file in their order"
  end
end

--- Refuses val_size together with eval_dataset, and other conflicts of data keys. Also called by
--- checks.train.
---@param c moonring.Configuration
function checks.datasets(c)
  custom_data.settle(c)
  if c.eval_dataset and c.val_size > 0 then
    config.fail "val_size and eval_dataset exclude one another"
  end
  streaming(c)
  if c.tool_format then data.check_tool_format(c.tool_format) end
  if c.group_by_length and c.disable_shuffling then
    c.notes[#c.notes + 1] = "group_by_length: with disable_shuffling the examples stay in their "
      .. "order, as in LLaMA-Factory"
  end
  if not c.tokenized_path then return end
  if system.exists(c.tokenized_path) and not system.is_folder(c.tokenized_path) then
    config.fail("tokenized_path: ", c.tokenized_path, " is a file, expected a folder")
  end
  if c.streaming and not datasets.kept(c) then
    config.fail("tokenized_path: ", c.tokenized_path, " holds nothing yet, and a stream is never ",
      "kept there: prepare the data once without streaming, or leave one of them out")
  end
  if c.streaming then
    c.notes[#c.notes + 1] = "streaming: the rows of tokenized_path are read as they are used, in "
      .. "their order there, as in LLaMA-Factory; buffer_size, dataloader_num_workers and "
      .. "disable_shuffling have no effect"
  end
  if datasets.kept(c) then
    c.notes[#c.notes + 1] = ("tokenized_path: the data is read from %s; dataset and the keys that "
      .. "say how to prepare it are ignored. Rows that were skipped or truncated then are not "
      .. "counted again"):format(c.tokenized_path)
  end
end

--- Refuses data set names that dataset_info.json does not contain. Also called by checks.train,
--- after all checks that need no data.
---@param c moonring.Configuration
function checks.names(c)
  if not datasets.kept(c) then dataset_names.check(c) end
end

-- Refuses training keys that do not work with a stream, which has no known length and no access to
-- an example by its number.
local function stream_training(c)
  if not c.streaming or not c.do_train then return end
  if c.max_steps < 1 then
    config.fail("streaming: expected max_steps beside it, since nobody knows how many rows ",
      "there are")
  end
  if c.precompute_ref_log_probs then
    config.fail("precompute_ref_log_probs: a stream has no end before which all log-probs could "
      .. "be computed; leave streaming out, or use a live reference")
  end
end

--- Refuses, with a one-line message, a run that cannot train or evaluate. Writes nothing.
---@param c moonring.Configuration
function checks.train(c)
  tasks.settle(c)
  placed.call(c, custom_data.settle, c)
  local reads = not custom_data.is_wanted(c) and (c.val_size > 0 or c.do_train)
  config.require_keys(c, { "model_name_or_path", reads and "dataset" or "output_dir",
    "output_dir" })
  for _, check in ipairs { numbers, stages, custom_objective, finetuning, packing.check,
    checks.datasets, evaluation_checks.check, stream_training, strategies.check, products.check,
    engines.apply, states, folder_checks.resuming, trackers.check, step_range.of_trace,
    checks.names, folder_checks.output_dir } do
    placed.call(c, check, c)
  end
end

return checks
