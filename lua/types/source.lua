---@meta moonring.native.source

--- What a source of data of one's own is made of (moonring.data.source): rows of files, and a feed
--- that makes examples and steps of rows that are handed in.
---@class moonring.native.source
local source = {}

--- A row that a source gives: a table with the columns of a data set, or
---   - text                               pt (a text alone is short for it)
---   - messages                           {role, content} each, and beside them system, tools; for
---                                        rm and dpo chosen and rejected (a message, or its text);
---                                        for kto kto_tag. A list of messages is short for it
---   - instruction, input, output, ..     alpaca's columns
---   - input_ids, labels                  token ids, as `moonring preprocess` writes them, with its
---                                        names for rm, dpo and kto; without labels (pt, sft) each
---                                        token is learnt
---@class moonring.SourceRow

--- The rows of files, from the first.
---@param files string[] of one kind or several
---@return moonring.Rows
function source.rows(files) end

--- The rows of a data set of dataset_info.json, and how they are to be read.
---@param dataset_dir string
---@param name string
---@param fetched? table<string, { files: string[], split: string }> of data sets that lie on a hub
---@param is_checkout? boolean the folder is one of a hub's cache: its names stay inside of it
---@return moonring.Rows
---@return table description formatting, ranking, columns, tags
function source.named_rows(dataset_dir, name, fetched, is_checkout) end

---@class moonring.FeedOptions: moonring.ExampleOptions
---@field name string what rows are called in messages
---@field description? string JSON: formatting, columns and tags of the rows
--- rows are examples of a tokenized_path; they stay as they are. False where absent
---@field prepared? boolean

--- A feed: rows in, examples out.
---@param options moonring.FeedOptions
---@return moonring.Feed
function source.feed(options) end

---@class moonring.Rows
local Rows = {}

--- The next row, a table with the file's columns; nil at the end. Errors name file and line.
---@return table?
function Rows:next() end

--- Where it stands.
---@return string
function Rows:save_state() end

--- Goes there. Errors: FAILED_PRECONDITION for a state of other files.
---@param state string
function Rows:load_state(state) end

function Rows:close() end

---@class moonring.Feed
local Feed = {}

--- Refuses token ids at or above it from now on.
---@param ids integer
function Feed:limit_ids(ids) end

--- Begins a pass, behind rows that were given before.
---@param rows integer
---@param digest string of these
function Feed:begin(rows, digest) end

--- Takes a row. What is wrong with one, `NAME (row N): words`, is told of here or by end_batch.
---@param row any
function Feed:add(row) end

--- Counts a row whose examples were taken before.
---@param row any
function Feed:pass_over(row) end

--- Makes examples of the rows since the last call: these are joined, packed or mismatched together.
function Feed:end_batch() end

--- How many examples are there to take.
---@return integer
function Feed:ready() end

--- Rows of the pass so far.
---@return integer
function Feed:rows() end

--- A digest of these.
---@return string
function Feed:digest() end

--- One of each row since the last call.
---@return string[]
function Feed:row_digests() end

--- A digest of the examples of the last batch.
---@return string
function Feed:batch_digest() end

--- Whether the rows of a batch are prepared together.
---@return boolean
function Feed:joins_rows() end

--- Drops the first examples.
---@param most integer
function Feed:drop(most) end

---@class moonring.FeedStepOptions
---@field mesh? moonring.Mesh
---@field batch integer examples at most, over all dp ranks
---@field micro_batch_tokens integer
---@field share_prefixes? boolean as of Dataset:steps
---@field index integer of the first example
---@field epoch integer
---@field step integer in the epoch
---@field last? boolean of the epoch; false where absent

--- A step of the first examples.
---@param options moonring.FeedStepOptions
---@return moonring.Step
function Feed:step(options) end

--- All rows as a data set; the feed is used up. Errors: INVALID_ARGUMENT where none gives an
--- example.
---@return moonring.Dataset
function Feed:finish() end

--- Fails where what was added so far gives no example, or none to learn from.
function Feed:check() end

--- As a data set's, of the rows so far.
---@return string
function Feed:report() end

--- As a data set's.
---@return string
function Feed:report_json() end

--- As a data set's; else nil.
---@return string?
function Feed:cut_warning() end

function Feed:close() end

return source
