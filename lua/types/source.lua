---@meta moonring.native.source

--- Building blocks of a custom data source (moonring.data.source): rows read from files, and a feed
--- that turns rows into examples and steps.
---@class moonring.native.source
local source = {}

--- A row of a custom data source: a table with the columns of a data set, or
---   - text                          for pt; a plain string means the same
---   - messages                      a list of {role, content}; next to it optionally system and
---                                   tools; for rm and dpo chosen and rejected (a message or its
---                                   text); for kto kto_tag. A plain list of messages means the
---                                   same
---   - instruction, input, output    alpaca's columns
---   - input_ids, labels             token ids, as `moonring preprocess` writes them, with its
---     names
---                                   for rm, dpo and kto; without labels (pt, sft) every token is
---                                   trained on
---@class moonring.SourceRow

--- Opens files as a sequence of rows.
---@param files string[] paths, of the same or different formats
---@return moonring.Rows
function source.rows(files) end

--- Opens the rows of a data set from dataset_info.json, and returns how to interpret them.
---@param dataset_dir string
---@param name string
---@param fetched? table<string, { files: string[], split: string }> by data set: the downloaded
---   files of those that are stored on a hub
---@param is_checkout? boolean whether the folder is a checkout in a hub's cache; file names must
---   then stay inside it
---@return moonring.Rows
---@return table description formatting, ranking, columns, tags
function source.named_rows(dataset_dir, name, fetched, is_checkout) end

---@class moonring.FeedOptions: moonring.ExampleOptions
---@field name string name of the rows in messages
---@field description? string JSON object with formatting, columns and tags of the rows
--- whether rows are examples of a tokenized_path and are used unchanged; default false
---@field prepared? boolean

--- Creates a feed, which converts rows to examples.
---@param options moonring.FeedOptions
---@return moonring.Feed
function source.feed(options) end

---@class moonring.Rows
local Rows = {}

--- The next row, a table with the file's columns; nil at the end. Errors contain the file and line.
---@return table?
function Rows:next() end

--- The current position as text.
---@return string
function Rows:save_state() end

--- Continues from a saved position. Errors: FAILED_PRECONDITION for the state of other files.
---@param state string
function Rows:load_state(state) end

function Rows:close() end

---@class moonring.Feed
local Feed = {}

--- From now on refuses token ids that are not below this number.
---@param ids integer
function Feed:limit_ids(ids) end

--- Starts a pass after this many rows of it that were used before.
---@param rows integer
---@param digest string digest of those rows
function Feed:begin(rows, digest) end

--- Adds a row. An error in a row, `NAME (row N): words`, is raised here or by end_batch.
---@param row any
function Feed:add(row) end

--- Counts a row whose examples were used before, without making examples.
---@param row any
function Feed:pass_over(row) end

--- Converts the rows since the last call to examples. These rows are joined, packed or mismatched
--- together.
function Feed:end_batch() end

--- Number of examples that are ready to use.
---@return integer
function Feed:ready() end

--- Number of rows in this pass so far.
---@return integer
function Feed:rows() end

--- Digest of these rows.
---@return string
function Feed:digest() end

--- Digests of the single rows since the last call.
---@return string[]
function Feed:row_digests() end

--- Digest of the examples from the last batch.
---@return string
function Feed:batch_digest() end

--- Whether all rows of a batch are processed together, by packing or mismatching.
---@return boolean
function Feed:joins_rows() end

--- Removes the first examples.
---@param most integer
function Feed:drop(most) end

---@class moonring.FeedStepOptions
---@field mesh? moonring.Mesh
---@field batch integer most examples of the step, over all dp ranks
---@field micro_batch_tokens integer
---@field share_prefixes? boolean as in Dataset:steps
---@field index integer index of the first example
---@field epoch integer
---@field step integer number in the epoch, from 0
---@field last? boolean whether it is the epoch's last step; default false

--- Makes a step from the first examples.
---@param options moonring.FeedStepOptions
---@return moonring.Step
function Feed:step(options) end

--- Returns all rows as a data set and ends the feed. Errors: INVALID_ARGUMENT if no row gives an
--- example.
---@return moonring.Dataset
function Feed:finish() end

--- Raises an error if the rows so far give no example, or none with a label to train on.
function Feed:check() end

--- As Dataset:report, about the rows so far.
---@return string
function Feed:report() end

--- As Dataset:report_json.
---@return string
function Feed:report_json() end

--- As Dataset:cut_warning.
---@return string?
function Feed:cut_warning() end

function Feed:close() end

return source
