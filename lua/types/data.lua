---@meta moonring.native.data

--- Tokenizers, chat templates, data sets, and the training steps made from them.
---@class moonring.native.data
local data = {}

---@class moonring.TokenizerOptions
---@field add_tokens? string[] new tokens, which get the next free ids
---@field add_special_tokens? string[] new special tokens, which get the ids after those
--- whether special tokens written in a text are encoded as ordinary text; default false
---@field split_special_tokens? boolean

--- A complete chat template table, as moonring.templates.find returns it.
---@class moonring.WholeTemplate

--- Creates a tokenizer from a model's files. Scripts use moonring.data.tokenizer.
---@param files table<string, string> contents by name
---@param where string the model's folder, used in messages
---@param options? moonring.TokenizerOptions
---@return moonring.Tokenizer
function data.tokenizer(files, where, options) end

--- The tokenizer files of a model as they must be saved after tokens were added; {} if none were.
---@param files table<string, string> contents by name
---@param tokenizer moonring.Tokenizer
---@return table<string, string> files name -> contents
function data.changed_files(files, tokenizer) end

--- Creates a chat template for a tokenizer. Tokens that end its answers and are missing in the
--- tokenizer are added to a copy of it: see Template:tokenizer. Errors: INVALID_ARGUMENT if a slot
--- names a token that is not in the tokenizer and there is no unknown token.
---@param template moonring.WholeTemplate
---@param tokenizer moonring.Tokenizer
---@param system? string replaces the template's own system text; "" for none
---@return moonring.Template
function data.template(template, tokenizer, system) end

--- Returns the chat template in a model's files, or nil. Scripts use moonring.data.model_template.
---@param files table<string, string> contents by name
---@param tokenizer moonring.Tokenizer
---@param where string the model's folder, used in messages
---@return moonring.ModelTemplate?
function data.model_template(files, tokenizer, where) end

--- How rows are converted to examples.
---@class moonring.ExampleOptions
---@field tokenizer moonring.Tokenizer
---@field template moonring.WholeTemplate
---@field default_system? string system text of examples that have none
---@field cutoff_len? integer most tokens of an example, prompt and response; default 2048
---@field train_on_prompt? boolean whether prompt tokens are trained on too; default false
---@field mask_history? boolean whether only the last turn is trained on; default false
--- what to do with a longer example; default "truncate"
---@field overlong? "truncate" | "drop" | "error"
---@field stage? "pt" | "sft" | "rm" | "dpo" | "kto" the stage that uses the examples; default "sft"
--- stage pt: join the texts and cut them into blocks of cutoff_len; default true. Stage sft: pack
--- examples into rows of cutoff_len + 1 tokens
---@field packing? boolean
---@field neat_packing? boolean stage sft: such rows, with attention separate for each example;
---   default false
--- stage sft: one example for each row, its last answer, with everything before it as prompt,
--- truncated as one turn; default false
---@field one_turn? boolean
--- number of rows that are joined (pt) or mismatched (kto) together; default 1000
---@field preprocessing_batch_size? integer
--- number of threads that convert rows; does not change the result. Default: this rank's cores, at
--- most 16
---@field threads? integer
---@field work? moonring.WorkCount counts the rows that are encoded
--- seed of numpy's random generator for val_size, interleave_probs and num_samples in
--- dataset_info.json; default 42
---@field seed? integer

---@class moonring.DatasetOptions: moonring.ExampleOptions
---@field names string[] entries of dataset_info.json, in the order in which they are joined
---@field dir? string folder of dataset_info.json; default "data"
---@field dir_is_checkout? boolean whether it is a checkout in a hub's cache; file names must then
---   stay inside it
--- for data sets on a hub, by name: their downloaded files, and the split to read
---@field fetched? table<string, { files: string[], split: string }>
---@field max_samples? integer most rows of each data set
--- "concat": one data set after another; "interleave_under": rows in turn until the first data set
--- ends; "interleave_over": until all have ended, restarting those that end earlier;
--- "interleave_once": until all have ended, each read once; default "concat"
---@field mix_strategy? "concat" | "interleave_under" | "interleave_over" | "interleave_once"
--- probability of taking the next row from each data set; absent: in turn
---@field interleave_probs? number[]
--- held-out rows: below 1 a fraction, else a number; 0 or absent: none
---@field val_size? number

---@class moonring.WholeDatasetOptions: moonring.DatasetOptions
--- whether held-out examples are made with one_turn; default false
---@field held_out_one_turn? boolean

--- Reads data sets in LLaMA-Factory's formats (alpaca, sharegpt, openai) and makes examples of
--- them: ids and unshifted labels. Their order is that of names and rows; with val_size, the order
--- in which rows were sampled. Errors name the data set, and file, line and row where possible.
---@param options moonring.WholeDatasetOptions
---@return moonring.Dataset train
---@return moonring.Dataset? held_out with val_size
function data.load(options) end

---@class moonring.StreamOptions: moonring.DatasetOptions
---@field val_size? integer number of held-out rows in each pass; default none
---@field buffer_size? integer rows in the shuffle buffer; default 16384
---@field shuffle? boolean whether rows are shuffled; default true
--- number of shards in which the data sets are read, each with its own buffer; batches come from
--- them in turn; default 1
---@field lanes? integer
--- whether to read the rows held out by val_size instead of the others; default false
---@field only_held_out? boolean

--- Opens data sets that are read during training, one pass after another, and shuffled in a buffer,
--- in the same row order as LLaMA-Factory's streaming. max_samples is refused. Errors: as `load`;
--- those in a row are raised by the step that would contain it.
---@param options moonring.StreamOptions
---@return moonring.Stream
function data.stream(options) end

---@class moonring.TokenizedOptions
---@field path string the data set's folder
---@field tokenizer moonring.Tokenizer
--- template whose padding token is not trained on in pretraining; default: the template "default"
---@field template moonring.WholeTemplate
---@field stage? "pt" | "sft" | "rm" | "dpo" | "kto" the stage whose columns are expected; default
---   "sft"
--- column with each example's length, used by `group_by_length` if present
---@field length_column? string
---@field with_train? boolean false: the split "train" is not read; default true

--- Reads tokenized examples by split ("train", "validation", ..) from a folder written by the
--- datasets library's save_to_disk or by save_tokenized. Errors name file and row: a missing folder
--- or shard, columns of another stage.
---@param options moonring.TokenizedOptions
---@return table<string, moonring.Dataset>
function data.load_tokenized(options) end

--- Creates a word segmenter like jieba, which also compares texts. Reads its word list, about 6 MB,
--- from Moonring's files.
---@return moonring.WordSegmenter
function data.word_segmenter() end

--- Writes such a folder, completely or not at all.
---@param path string
---@param splits table<string, moonring.Dataset>
---@param stage string
function data.save_tokenized(path, splits, stage) end

--- Checks the name of a tool-call format. Errors: NOT_FOUND, with the nearest name.
---@param name string
function data.check_tool_format(name) end

--- The files of the split "train" in such a folder, in row order.
---@param path string
---@return string[]
function data.tokenized_train_files(path) end

--- Whether a folder exists and is not empty.
---@param path string
---@return boolean
function data.has_tokenized(path) end

---@class moonring.Tokenizer
local Tokenizer = {}

--- Encodes a text. No token is added; special tokens written in the text are recognized.
---@param text string UTF-8; malformed bytes become U+FFFD
---@return integer[]
function Tokenizer:encode(text) end

--- Decodes ids to text. Unknown ids are skipped.
---@param ids integer[]
---@param skip_special? boolean whether special tokens are omitted; default false
---@return string
function Tokenizer:decode(ids, skip_special) end

--- The id of the bos token, or nil.
---@return integer?
function Tokenizer:bos() end

--- The id of the eos token, or nil.
---@return integer?
function Tokenizer:eos() end

--- The id (bos) that the tokenizer's post-processor puts before each text, or nil. `encode` does
--- not add it.
---@return integer?
function Tokenizer:leading_bos() end

--- Number of tokens, including added ones.
---@return integer
function Tokenizer:vocab_size() end

--- Largest id plus one: the number of rows that a model must have.
---@return integer
function Tokenizer:end_id() end

--- A token as written in the vocabulary; "" for an unknown id.
---@param id integer
---@return string
function Tokenizer:token_of(id) end

--- The ids of additional_special_tokens, including stop words: special tokens without a role of
--- their own.
---@return integer[]
function Tokenizer:more_special_ids() end

--- The ids of tokens that were added, or made special, after the tokenizer's files were read.
---@return integer[]
function Tokenizer:added_ids() end

--- The eos id if it differs from the one in the tokenizer's files, or nil.
---@return integer?
function Tokenizer:new_eos() end

function Tokenizer:close() end

--- Splits Chinese and mixed text into words, like jieba.
---@class moonring.WordSegmenter
local WordSegmenter = {}

--- Splits a text into words, as jieba 0.42.1's cut does. The words concatenate to the text.
---@param text string UTF-8; malformed bytes become U+FFFD
---@return string[]
function WordSegmenter:cut(text) end

--- Similarity of a prediction and its label as in LLaMA-Factory's predict_with_generate: "bleu-4"
--- over characters, "rouge-1", "rouge-2" and "rouge-l" over words; in percent, rounded to four
--- decimals.
---@param prediction string
---@param label string
---@return table<string, number>
function WordSegmenter:compare(prediction, label) end

function WordSegmenter:close() end

---@class moonring.Template
local Template = {}

--- Encodes a conversation as a prompt for the model's next answer. Errors: INVALID_ARGUMENT for an
--- even number of texts.
---@param texts string[] the messages in turns; the first and the last are the user's
---@param system? string system text; the template's own if absent or ""
---@return integer[]
function Template:encode_prompt(texts, system) end

--- The tokenizer that the template encodes with: the one passed to data.template, with the tokens
--- that end an answer added as special tokens.
---@return moonring.Tokenizer
function Template:tokenizer() end

--- The ids that end an answer: eos and the template's stop words, without duplicates.
---@return integer[]
function Template:stop_ids() end

--- The id that ends a turn in training.
---@return integer
function Template:eos() end

function Template:close() end

--- A Jinja chat template from a model's files, rendered as Transformers' apply_chat_template does.
---@class moonring.ModelTemplate
local ModelTemplate = {}

--- Encodes a conversation as a prompt for the model's next answer, rendered with a generation
--- prompt; special tokens in it are recognized. Errors: INVALID_ARGUMENT for an even number of
--- texts, and for an error that the template raises, with its line.
---@param texts string[] the messages in turns; the first and the last are the user's
---@param system? string system message before them; none if absent or ""
---@param enable_thinking? boolean the variable enable_thinking in the template; undefined if absent
---@return integer[]
function ModelTemplate:encode_prompt(texts, system, enable_thinking) end

--- The fields of a template table that LLaMA-Factory derives from the Jinja template if a
--- configuration names no template. Errors: INVALID_ARGUMENT if it refuses a test conversation or
--- drops one of its messages.
---@return moonring.TemplateTable
function ModelTemplate:fields() end

--- How the template renders the reasoning text of a message (reasoning_content, reasoning,
--- thinking): the text before and after it, and the value of thought_trim. {} if it does not render
--- it. Errors: as `fields`.
---@return string[]
function ModelTemplate:thoughts() end

--- Whether the model has several named templates.
---@return boolean
function ModelTemplate:is_one_of_several() end

function ModelTemplate:close() end

---@class moonring.Document
---@field ids integer[]
---@field labels integer[] unshifted; -100: not trained on

--- Training examples, as `moonring preprocess` writes them.
---@class moonring.Dataset
local Dataset = {}

--- Number of examples.
---@return integer
function Dataset:size() end

--- Returns one example. Errors: OUT_OF_RANGE.
---@param index integer from 0
---@return moonring.Document[] documents one (pt, sft), chosen and rejected (rm, dpo), or the answer
---   and the mismatched one (kto)
---@return boolean? desirable kto's label
function Dataset:example(index) end

--- For each example the number of tokens in one forward.
---@return integer[]
function Dataset:lengths() end

--- Number of tokens of each document, example by example.
---@return integer[]
function Dataset:document_lengths() end

--- The distinct ids in its examples that are not below `first`.
---@param first integer
---@return integer[]
function Dataset:ids_from(first) end

--- A digest of 40 hexadecimal digits over all ids, labels and kto tags, in the examples' order.
---@return string
function Dataset:digest() end

--- A report for people of what was read, truncated and skipped, with a histogram of lengths if used
--- for training.
---@param use? "learnt" | "evaluated" "learnt": for training, "evaluated": for evaluation; default
---   "learnt"
---@param other? moonring.Dataset another data set that is counted too
---@return string
function Dataset:report(use, other) end

--- How each row was truncated, for examples made with one_turn; else {}.
---@return moonring.RowUse[]
function Dataset:row_uses() end

---@class moonring.RowUse
---@field where string FILE:LINE (row N)
---@field left_out? string why the row gives no example
---@field prompt_cut integer tokens removed from the prompt by cutoff_len
---@field answer_cut integer tokens removed from the answer by cutoff_len

--- The report as a JSON object: rows, examples, tokens, learnt (tokens trained on), truncated,
--- starved (truncated examples with less than a tenth of their labels left, or fewer than four),
--- nothing_learnt (examples without labels), longest, left_over; skipped and noted (what, count,
--- first); lengths (from, to, rows).
---@return string
function Dataset:report_json() end

--- A warning if cutoff_len removes nearly all labels from most rows; else nil.
---@return string?
function Dataset:cut_warning() end

---@class moonring.StepsOptions
--- each dp rank gets its share of every step; default: this process gets all of it
---@field mesh? moonring.Mesh
---@field batch integer examples in a step, over all dp ranks
---@field micro_batch_tokens integer most tokens in a micro-batch; a longer example gets its own
--- whether documents of an example share their common first tokens, if these have no labels: they
--- are processed once (Sequence:parents); default false
---@field share_prefixes? boolean
---@field seed? integer seed of the order; default 42
--- whether each epoch is shuffled, by torch.randperm with seed + epoch; default true
---@field shuffle? boolean
---@field total_steps? integer number of steps; default: unlimited
--- whether each epoch's order is divided into groups of 50 steps (shorter ones if there are fewer
--- than four), each sorted by decreasing length, as in Transformers; default false
---@field group_by_length? boolean
--- for each epoch the indices of all examples in order, from 0; replaces seed, shuffle and
--- group_by_length
---@field orders? integer[][]
--- batch size; examples at the end of an epoch that do not fill a batch are skipped. A step is a
--- number of such batches
---@field drop_last? integer

--- Returns the steps of a training, prepared ahead by a background thread. The examples in a step
--- depend only on (seed, epoch, step), not on ranks or packing. A step never spans two epochs: the
--- last step of an epoch may be smaller.
---@param options moonring.StepsOptions
---@return moonring.Steps
function Dataset:steps(options) end

--- Writes one JSON object for each example: input_ids and labels; in stages rm and dpo
--- chosen_input_ids, chosen_labels, rejected_input_ids, rejected_labels; in kto also kl_input_ids,
--- kl_labels, kto_tag. The file is written completely or not at all.
---@param path string
function Dataset:write(path) end

function Dataset:close() end

--- Examples of data sets that are read during training.
---@class moonring.Stream
local Stream = {}

--- Always nil: the number of examples is not known.
---@return integer?
function Stream:size() end

---@class moonring.StreamStepsOptions
---@field mesh? moonring.Mesh as in Dataset:steps
---@field batch integer examples in a batch; a shard's last batch may be smaller
---@field batches? integer batches in a step, over all dp ranks; default 1
---@field micro_batch_tokens integer most tokens in a micro-batch; a longer example gets its own
---@field share_prefixes? boolean as in Dataset:steps
---@field total_steps? integer number of steps; default: unlimited

--- Returns the steps of a training, from the beginning of the first pass. An epoch is one pass;
--- indices of examples increase over all passes. A stream can have only one such object at a time.
---@param options moonring.StreamStepsOptions
---@return moonring.Steps
function Stream:steps(options) end

--- Reads the first pass into memory as a data set, in the order of its batches.
---@param batch integer
---@return moonring.Dataset
function Stream:whole(batch) end

--- As Dataset:report, about the rows read so far, possibly more than the steps have used.
---@return string
function Stream:report() end

--- As Dataset:report_json, about the same rows.
---@return string
function Stream:report_json() end

--- As Dataset:cut_warning, about the rows read so far.
---@return string?
function Stream:cut_warning() end

function Stream:close() end

---@class moonring.Steps
local Steps = {}

--- The next step, or nil after the last.
---@return moonring.Step?
function Steps:next() end

--- The position after the last returned step as text, to resume from.
---@return string
function Steps:save_state() end

--- Resumes from a saved position. Raises an error if it is not at a step boundary for this number
--- of examples; the position is then unchanged.
---@param state string
function Steps:load_state(state) end

function Steps:close() end

--- One document of token ids.
---@class moonring.GivenDocument
---@field ids integer[]
---@field labels? integer[] unshifted; -100: not trained on. Default: the ids
---@field positions? integer[] for the rotary embedding; default: from 0

--- An example with one document, or with several in `documents`.
---@class moonring.GivenExample: moonring.GivenDocument
---@field documents? moonring.GivenDocument[] replaces ids, labels and positions
--- index that `examples` of the step and its micro-batches reports, and that keys random noise;
--- default: its index in the list, from 0
---@field number? integer
--- with share_prefixes: examples with the same number, such as the answers to one prompt, share
--- their common first tokens, as the documents of one example do. Default: each example separately
---@field family? integer

---@class moonring.StepOptions
---@field examples moonring.GivenExample[] the examples of all dp ranks, the same on each rank
---@field mesh? moonring.Mesh each dp rank gets its share; default: this process gets all of it
---@field micro_batch_tokens integer most tokens in a micro-batch; a longer example gets its own
---@field epoch? integer from 0; default 0
---@field step? integer number in the epoch, from 0; default 0
---@field last? boolean whether it is the epoch's last; default false
--- whether documents of an example, and of a family, share their common first p tokens without
--- labels: these are processed once (Sequence:parents). A family then stays in one micro-batch,
--- with p + the sum of the remaining tokens. It is split between examples, each part with its own
--- copy of the prefix, if it is longer than a micro-batch or would make other dp ranks wait;
--- default false
---@field share_prefixes? boolean

--- Makes a step of given token ids, packed like the steps of a data set. Errors: INVALID_ARGUMENT,
--- with the example's number, if it has no tokens, or if the numbers of ids, labels and positions
--- differ.
---@param options moonring.StepOptions
---@return moonring.Step
function data.step(options) end

--- The examples of one optimizer step.
---@class moonring.Step
local Step = {}

--- The epoch, from 0.
---@return integer
function Step:epoch() end

--- The step's number in its epoch, from 0.
---@return integer
function Step:index() end

--- Whether it is the last step of its epoch.
---@return boolean
function Step:last() end

--- Number of tokens in the whole step, over all dp ranks, without kto's mismatched documents. A
--- shared prefix counts in each document.
---@return integer
function Step:tokens() end

--- Sum of T^2 over the same documents, of T tokens each.
---@return number
function Step:squares() end

--- Number of examples in the whole step, over all dp ranks.
---@return integer
function Step:size() end

--- Indices into the data set, from 0, of all examples in the step, over all dp ranks.
---@return integer[]
function Step:examples() end

--- This dp rank's share, packed into micro-batches; may be empty. The same on every rank of an sp
--- group.
---@return moonring.MicroBatch[]
function Step:micro_batches() end

--- For each example of the whole step, in its order, the number of tokens in one forward.
---@return integer[]
function Step:lengths() end

--- For stages that generate answers: the step's examples as prompts, over all dp ranks, each with
--- its data set row as JSON. Errors: INVALID_ARGUMENT in other stages.
---@return { ids: integer[], row: string }[]
function Step:prompts() end

--- Packs the step differently: each list of positions in the step, from 0, becomes a micro-batch,
--- and micro-batches are assigned to dp ranks by cost. kto's mismatched documents are unchanged.
--- Errors: INVALID_ARGUMENT if a position is missing or appears twice.
---@param groups integer[][]
---@param mesh? moonring.Mesh
function Step:regroup(groups, mesh) end

--- A copy of the step with other micro-batches, as Dataset:steps would make with this
--- micro_batch_tokens.
---@param micro_batch_tokens integer
---@param mesh? moonring.Mesh
---@return moonring.Step
function Step:repacked(micro_batch_tokens, mesh) end

--- kto: this dp rank's share of the mismatched documents, packed separately; not necessarily those
--- of its examples. Empty in other stages.
---@return moonring.MicroBatch[]
function Step:mismatched() end

function Step:close() end

--- The documents that one sp group processes in one forward pass.
---@class moonring.MicroBatch
local MicroBatch = {}

--- Its documents, grouped by example (`document_counts`); a shared prefix comes before the first
--- document that continues it (Sequence:parents).
---@return moonring.Sequence
function MicroBatch:sequence() end

--- int64 [T], unshifted; -100: not trained on.
---@return moonring.Tensor
function MicroBatch:labels() end

--- Indices into the data set, from 0, in the order of the documents.
---@return integer[]
function MicroBatch:examples() end

--- The positions of the same examples in the step, from 0.
---@return integer[]
function MicroBatch:places() end

--- Number of documents in each example: 1; 2 for pairs (chosen, rejected, chosen, rejected, ...);
--- several for a row of neat_packing. Shared prefixes are not counted (Sequence:own_documents).
---@return integer[]
function MicroBatch:document_counts() end

--- kto: whether each example is desirable; nil in other stages.
---@return boolean[]?
function MicroBatch:desirable() end

function MicroBatch:close() end

return data
