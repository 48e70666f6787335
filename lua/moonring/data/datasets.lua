--- The data sets of a run. They are prepared in memory, or read as a stream, or loaded in the
-- prepared form that tokenized_path contains.
local config = require "moonring.config"
local data = require "moonring.data"
local dataset_names = require "moonring.data.dataset_names"
local errors = require "moonring.base.errors"
local hub_datasets = require "moonring.data.hub_datasets"
local custom_data = require "moonring.data.custom_data"
local stages = require "moonring.choices.stages"
local configured_template = require "moonring.data.configured_template"

---@class moonring.datasets
local datasets = {}

---@class moonring.NamedDataset
---@field name string
---@field dataset moonring.Dataset

---@class moonring.EvaluatedDataset
---@field dataset moonring.Dataset
---@field name? string set if there are several
---@field key string prefix of its metrics: "eval", "eval_NAME"
---@field of string origin of its rows: names from eval_dataset, or "val_size"

-- Converts interleave_probs to numbers, since the items of a comma-separated list are strings.
local function probabilities(list)
  local numbers = {}
  for i, each in ipairs(list or {}) do
    numbers[i] = tonumber(each)
    if not numbers[i] then
      config.fail("interleave_probs: expected numbers, got '", tostring(each), "'")
    end
  end
  return numbers
end

-- The options of data.load and data.stream for data sets that are given by name. Fields of `more`
-- override the others.
local function options(c, names, tokenizer, more)
  local dir = hub_datasets.dir(c)
  local fetched = hub_datasets.fetch(dir, names, c)
  local files = names and not hub_datasets.is_remote(c) and dataset_names.files(c, dir, names) or {}
  for name, file in pairs(files) do fetched[name] = file end
  local wanted = {
    names = names,
    stage = stages.of(c).reads,
    dir = dir,
    dir_is_checkout = hub_datasets.is_remote(c),
    fetched = fetched,
    template = configured_template.of(c),
    default_system = c.default_system,
    tokenizer = tokenizer,
    -- Packing, if the user sets it, takes one token of cutoff_len, as in LLaMA-Factory.
    cutoff_len = (c.max_prompt_length or c.cutoff_len)
      - ((c.packing or c.neat_packing) and 1 or 0),
    max_samples = c.max_samples,
    mix_strategy = c.mix_strategy,
    interleave_probs = probabilities(c.interleave_probs),
    train_on_prompt = c.train_on_prompt,
    mask_history = c.mask_history,
    overlong = c.overlong,
    packing = c.packing,
    neat_packing = c.neat_packing,
    preprocessing_batch_size = c.preprocessing_batch_size,
    threads = c.preprocessing_num_workers,
    seed = c.seed,
  }
  for name, value in pairs(more or {}) do wanted[name] = value end
  return wanted
end

local function stream(c, names, tokenizer, more)
  local wanted = options(c, names, tokenizer, more)
  wanted.buffer_size, wanted.lanes = c.buffer_size, math.max(c.dataloader_num_workers, 1)
  return data.stream(wanted)
end

-- Loads data sets for evaluation. They are kept in memory even with streaming, because they are
-- read repeatedly. If answers are generated, each turn of a conversation is one example.
local function evaluated(c, names, tokenizer, more, work)
  local wanted = { one_turn = c.predict_with_generate, work = work }
  for name, value in pairs(more or {}) do wanted[name] = value end
  -- Generated answers keep the order of the file, so streaming's shuffle is not used for them.
  local streams = c.streaming and not custom_data.is_wanted(c)
    and (wanted.only_held_out or not c.predict_with_generate)
  return errors.of_key_instead("eval_dataset", "dataset", function()
    if not streams then return (data.load(options(c, names, tokenizer, wanted))) end
    return stream(c, names, tokenizer, wanted):whole(c.per_device_eval_batch_size)
  end)
end

-- Loads each data set of eval_dataset separately, without shuffling, as in LLaMA-Factory.
local function one_by_one(c, tokenizer, work)
  local each = {}
  for i, name in ipairs(c.eval_dataset) do
    local alone = { mix_strategy = "concat", interleave_probs = {} }
    if c.streaming and not custom_data.is_wanted(c) then alone.shuffle = false end
    each[i] = { name = name, dataset = evaluated(c, { name }, tokenizer, alone, work) }
  end
  return each
end

local function tokenized_splits(c, tokenizer, with_train)
  return data.load_tokenized { path = c.tokenized_path, stage = stages.of(c).reads,
    template = configured_template.of(c), tokenizer = tokenizer, with_train = with_train,
    length_column = c.group_by_length and c.length_column_name or nil }
end

-- Streams the split "train" of tokenized_path, in file order.
local function tokenized_stream(c, tokenizer, ids)
  local rows = data.rows(data.tokenized_train_files(c.tokenized_path))
  rows.name = c.tokenized_path
  local train = custom_data.stream(c, data.source(rows),
    options(c, nil, tokenizer, { prepared = true }), ids)
  function train.whole() return tokenized_splits(c, tokenizer, true).train end
  return train
end

-- Loads the splits of tokenized_path. Returns what datasets.load returns; with streaming the
-- training split is a stream.
local function tokenized(c, tokenizer, own)
  local splits = tokenized_splits(c, tokenizer, not c.streaming)
  local each = {}
  for split, dataset in pairs(splits) do
    local name = split:match "^validation_(.+)$"
    if name then each[#each + 1] = { name = name, dataset = dataset } end
  end
  if c.streaming then splits.train = tokenized_stream(c, tokenizer, own and own.rows) end
  return splits.train, splits.validation, not splits.validation and each[1] and each or nil
end

--- Whether tokenized_path already contains prepared data.
---@param c moonring.Configuration
---@return boolean
function datasets.kept(c)
  return c.tokenized_path ~= nil and data.has_tokenized(c.tokenized_path)
end

--- Downloads data sets that are given by name on a hub, unless they are cached. Call it before the
--- ranks are started, which then use the cache.
---@param c moonring.Configuration
function datasets.fetch(c)
  if datasets.kept(c) then return end
  local dir = hub_datasets.dir(c)
  if not custom_data.is_wanted(c) then hub_datasets.fetch(dir, c.dataset, c) end
  hub_datasets.fetch(dir, c.eval_dataset, c)
end

--- Loads the training data and the evaluation data. The latter are one data set, or with
--- eval_on_each_dataset a list. `own.mesh` and `own.rows` are for data sources (custom_data.open);
--- `own.work` counts rows. Collective over all ranks of own.mesh if data_source is set.
---@param c moonring.Configuration
---@param tokenizer moonring.Tokenizer
---@param own? { mesh: moonring.Mesh, rows: integer, work: moonring.WorkCount? }
---@return moonring.Dataset | moonring.Stream train
---@return moonring.Dataset? eval
---@return moonring.NamedDataset[]? each
function datasets.load(c, tokenizer, own)
  if datasets.kept(c) then
    return errors.of_key("tokenized_path", tokenized, c, tokenizer, own)
  end
  local train, held_out
  local work = own and own.work
  if custom_data.is_wanted(c) then
    train = custom_data.open(c, tokenizer, options(c, nil, tokenizer), own)
  elseif c.streaming then
    local rows = math.floor(c.val_size)
    train = stream(c, c.dataset, tokenizer, { val_size = rows })
    if rows > 0 then
      held_out = evaluated(c, c.dataset, tokenizer, { val_size = rows, only_held_out = true })
    end
  else
    train, held_out = data.load(options(c, c.dataset, tokenizer, { val_size = c.val_size,
      held_out_one_turn = c.predict_with_generate, work = work }))
  end
  if not c.eval_dataset then return train, held_out end
  if c.eval_on_each_dataset then return train, nil, one_by_one(c, tokenizer, work) end
  return train, evaluated(c, c.eval_dataset, tokenizer, nil, work)
end

--- Lists the evaluation data sets in order. Each has its name (nil if it is the only one), the
--- prefix of its metrics, and the origin of its rows.
---@param c moonring.Configuration
---@param eval? moonring.Dataset
---@param each? moonring.NamedDataset[]
---@return moonring.EvaluatedDataset[]? nil if there are none
function datasets.listed(c, eval, each)
  local evals = each or eval and { { dataset = eval } }
  for _, one in ipairs(evals or {}) do
    one.key = one.name and "eval_" .. one.name or "eval"
    one.of = one.name or not c.eval_dataset and "val_size" or table.concat(c.eval_dataset, ",")
  end
  return evals
end

--- Loads the evaluation data of a run that does not train: eval_dataset, or the val_size examples
--- that are split off dataset. Collective over all ranks of own.mesh.
---@param c moonring.Configuration
---@param tokenizer moonring.Tokenizer
---@param own? { mesh: moonring.Mesh, rows: integer, work: moonring.WorkCount? } as in `load`
---@return moonring.EvaluatedDataset[]
function datasets.evaluated(c, tokenizer, own)
  local eval, each
  if datasets.kept(c) then
    local _, held_out, splits = tokenized(c, tokenizer)
    eval, each = held_out, splits
    datasets.check_evaluation(c, eval, each)
  elseif c.eval_dataset and c.eval_on_each_dataset then
    each = one_by_one(c, tokenizer, own and own.work)
  elseif c.eval_dataset then
    eval = evaluated(c, c.eval_dataset, tokenizer, nil, own and own.work)
  else
    local _, held_out = datasets.load(c, tokenizer, own)
    eval = held_out
  end
  return datasets.listed(c, eval, each)
end

--- Saves the results of `load` to tokenized_path, if that key is set. Call it on one rank, if
--- tokenized_path had no data before `load`.
---@param c moonring.Configuration
---@param train moonring.Dataset
---@param eval? moonring.Dataset
---@param each? moonring.NamedDataset[]
---@return string? said a message for the log
function datasets.keep(c, train, eval, each)
  if not c.tokenized_path then return nil end
  local splits = { train = train, validation = eval }
  for _, one in ipairs(each or {}) do splits["validation_" .. one.name] = one.dataset end
  local ok, why = pcall(data.save_tokenized, c.tokenized_path, splits, stages.of(c).reads)
  if not ok and errors.is(why, "ALREADY_EXISTS") then
    return "tokenized_path: " .. errors.words(why) .. "; this run uses what it prepared itself"
  end
  if not ok then error(why, 0) end
  return ("the prepared data is in %s: with the same tokenized_path the next run reads it there")
    :format(c.tokenized_path)
end

--- Fails if the run must evaluate but tokenized_path has no evaluation split.
---@param c moonring.Configuration
---@param eval? moonring.Dataset
---@param each? moonring.NamedDataset[]
function datasets.check_evaluation(c, eval, each)
  if eval or each or not datasets.kept(c) then return end
  if c.eval_strategy ~= "no" or c.do_eval then
    config.fail("tokenized_path: ", c.tokenized_path,
      " has no split 'validation', and eval_strategy needs one")
  end
end

return datasets
