---@meta moonring.native.source

--- Building blocks of a custom data source (moonring.data.source): `Rows`, which reads rows from
--- files, and `Feed`, which converts rows to examples and training steps.
---@class moonring.native.source
local source = {}

--- A row of a custom data source: a table with the columns of a data set, or with these:
---
--- - `text`: a text, for stage pt. A plain string means the same.
--- - `messages`: a list of {role, content}. Next to it optionally `system` and `tools`; for stages
---   rm and dpo `chosen` and `rejected` (a message or its text); for kto `kto_tag`. A plain list of
---   messages means the same as a table with only `messages`.
--- - `instruction`, `input`, `output`: alpaca's columns.
--- - `input_ids`, `labels`: token ids, as `moonring preprocess` writes them (for rm, dpo and kto
---   under its other names). Without labels (pt, sft) every token is trained on.
---@class moonring.SourceRow

--- Opens files as a sequence of rows.
---@param files string[] paths of files, which may have different formats
---@return moonring.Rows
function source.rows(files) end

--- Opens the rows of a data set in dataset_info.json, and returns a description of how to interpret
--- the rows.
---@param dataset_dir string
---@param name string
---@param fetched? table<string, { files: string[], split?: string, entry?: string }> by name: for
---   data sets that are stored on a hub their downloaded files, and the split to read; for files
---   that dataset_info.json does not describe, JSON that does
---@param is_checkout? boolean whether `dataset_dir` is a checkout in a hub's cache; file names must
---   then stay inside it
---@return moonring.Rows
---@return table description with the keys formatting, ranking, columns and tags of
---   dataset_info.json
function source.named_rows(dataset_dir, name, fetched, is_checkout) end

---@class moonring.FeedOptions: moonring.ExampleOptions
---@field name string how error messages call the source of the rows
---@field description? string JSON object with formatting, columns and tags of the rows
---@field prepared? boolean whether rows are tokenized examples, as in the folder of the key
---   tokenized_path, and are used unchanged; default false

--- Creates a feed, an object that converts rows to examples.
---@param options moonring.FeedOptions
---@return moonring.Feed
function source.feed(options) end

---@class moonring.Rows
local Rows = {}

--- Returns the next row, a table with the file's columns; nil at the end. Error messages contain
--- the file and line.
---@return table?
function Rows:next() end

--- Returns the current position as text.
---@return string
function Rows:save_state() end

--- Continues from a position that save_state returned. Errors: FAILED_PRECONDITION if it was saved
--- for other files.
---@param state string
function Rows:load_state(state) end

function Rows:close() end

---@class moonring.Feed
local Feed = {}

--- From this call on, refuses token ids that are greater than or equal to `ids`.
---@param ids integer
function Feed:limit_ids(ids) end

--- Starts a pass over the rows, or resumes one after the `rows` rows that an earlier run has used.
---@param rows integer
---@param digest string digest of those rows
function Feed:begin(rows, digest) end

--- Adds a row to the current batch. An error in the row, `NAME (row N): words`, is raised here or
--- by end_batch.
---@param row any
function Feed:add(row) end

--- Counts a row whose examples an earlier run has used. No example is made of it.
---@param row any
function Feed:pass_over(row) end

--- Ends a batch: converts the rows since the last call to examples. Rows of one batch are joined,
--- packed, or given each other's answers (stage kto) together.
function Feed:end_batch() end

--- Number of examples that are ready to use.
---@return integer
function Feed:ready() end

--- Number of rows in this pass so far.
---@return integer
function Feed:rows() end

--- Returns the digest of the rows in this pass so far.
---@return string
function Feed:digest() end

--- Returns a digest of each row since the last call.
---@return string[]
function Feed:row_digests() end

--- Returns the digest of the examples of the last batch.
---@return string
function Feed:batch_digest() end

--- Whether the examples of a row depend on the other rows of its batch (packing, or stage kto).
---@return boolean
function Feed:joins_rows() end

--- Removes examples from the beginning of those that are ready.
---@param most integer largest number of examples to remove
function Feed:drop(most) end

---@class moonring.FeedStepOptions
---@field mesh? moonring.Mesh
---@field batch integer most examples of the step, over all dp ranks
---@field micro_batch_tokens integer
---@field share_prefixes? boolean as in Dataset:steps
---@field index integer index of the step's first example among all examples
---@field epoch integer
---@field step integer number of the step in its epoch, from 0
---@field last? boolean whether this is the last step of its epoch; default false

--- Makes a step from the examples that have been ready for longest.
---@param options moonring.FeedStepOptions
---@return moonring.Step
function Feed:step(options) end

--- Returns all examples as a data set, and ends the feed. Errors: INVALID_ARGUMENT if no row became
--- an example.
---@return moonring.Dataset
function Feed:finish() end

--- Raises an error if no row so far became an example, or if no example has a label to train on.
function Feed:check() end

--- The report of Dataset:report for the rows so far.
---@return string
function Feed:report() end

--- The report of Dataset:report_json for the rows so far.
---@return string
function Feed:report_json() end

--- The warning of Dataset:cut_warning for the rows so far.
---@return string?
function Feed:cut_warning() end

function Feed:close() end

return source
