---@meta moonring.datasets

--- The data sets of a run, out of its configuration: prepared and held in memory, read as they are used (streaming), or prepared before (tokenized_path).
---@class moonring.datasets
local datasets = {}

---@class moonring.NamedDataset
---@field name string
---@field dataset moonring.Dataset

--- The data set to learn from, and what to evaluate on: one data set, or with eval_on_each_dataset a list of them.
---@param c moonring.Configuration
---@param tokenizer moonring.Tokenizer
---@return moonring.Dataset | moonring.Stream train
---@return moonring.Dataset? eval
---@return moonring.NamedDataset[]? each
function datasets.load(c, tokenizer) end

--- Whether tokenized_path holds data already.
---@param c moonring.Configuration
---@return boolean
function datasets.kept(c) end

--- Keeps what `load` gave in tokenized_path where nothing is there yet. To be called on one rank.
---@param c moonring.Configuration
---@param train moonring.Dataset
---@param eval? moonring.Dataset
---@param each? moonring.NamedDataset[]
---@return string? said what to say of it
function datasets.keep(c, train, eval, each) end

--- Ends the run where it is to evaluate, and tokenized_path holds nothing to evaluate on.
---@param c moonring.Configuration
---@param eval? moonring.Dataset
---@param each? moonring.NamedDataset[]
function datasets.check_evaluation(c, eval, each) end

return datasets
