---@meta moonring.native.data

--- Tokenizers, chat templates, data sets, and the training steps made from them.
---@class moonring.native.data
local data = {}

---@class moonring.TokenizerOptions
---@field add_tokens? string[] new tokens; they get the next free ids
---@field add_special_tokens? string[] new special tokens; they get the ids after those of
---   add_tokens
---@field split_special_tokens? boolean whether special tokens that are written in a text are
---   encoded as ordinary text; default false

--- A chat template table with all fields, as moonring.templates.find returns it.
---@class moonring.WholeTemplate

--- Creates a tokenizer from the contents of a model's files. Scripts use moonring.data.tokenizer.
---@param files table<string, string> contents by file name
---@param where string the model's folder, named in error messages
---@param options? moonring.TokenizerOptions
---@return moonring.Tokenizer
function data.tokenizer(files, where, options) end

--- Returns a model's tokenizer files as they must be saved after tokens were added; {} if no token
--- was added.
---@param files table<string, string> contents by name
---@param tokenizer moonring.Tokenizer
---@return table<string, string> files contents by file name
function data.changed_files(files, tokenizer) end

--- Creates a chat template for a tokenizer. Tokens that end the template's answers and that the
--- tokenizer lacks are added to a copy of the tokenizer, which Template:tokenizer returns. Errors:
--- INVALID_ARGUMENT if the template contains a token that the tokenizer does not have and there is
--- no unknown token.
---@param template moonring.WholeTemplate
---@param tokenizer moonring.Tokenizer
---@param system? string replaces the template's default system text; "" for none
---@return moonring.Template
function data.template(template, tokenizer, system) end

--- Returns the chat template in a model's files, or nil if there is none. Scripts use
--- moonring.data.model_template.
---@param files table<string, string> contents by file name
---@param tokenizer moonring.Tokenizer
---@param where string the model's folder, named in error messages
---@return moonring.ModelTemplate?
function data.model_template(files, tokenizer, where) end

--- Options that control how rows of a data set become training examples.
---@class moonring.ExampleOptions
---@field tokenizer moonring.Tokenizer
---@field template moonring.WholeTemplate
---@field default_system? string system text of examples that have none
---@field cutoff_len? integer most tokens of an example, prompt and response together; default 2048
---@field train_on_prompt? boolean whether prompt tokens are trained on too; default false
---@field mask_history? boolean whether only the last turn is trained on; default false
---@field overlong? "truncate" | "drop" | "error" what to do with an example that is longer than
---   cutoff_len; default "truncate"
---@field stage? "pt" | "sft" | "rm" | "dpo" | "kto" the training stage that uses the examples;
---   default "sft"
---@field packing? boolean in stage pt: whether texts are joined and cut into blocks of cutoff_len
---   tokens; default true. In stage sft: whether examples are packed into rows of cutoff_len + 1
---   tokens; default false
---@field neat_packing? boolean in stage sft: whether examples are packed as with `packing`, but
---   attend only to themselves; default false
---@field one_turn? boolean in stage sft: whether each row becomes one example whose response is the
---   row's last answer and whose prompt is everything before it, truncated as one turn; default
---   false
---@field preprocessing_batch_size? integer number of rows that are processed together: joined in
---   stage pt; in stage kto each prompt gets the answer of another row of the same batch; default
---   1000
---@field threads? integer number of threads that convert rows (the result is the same for every
---   number). Default: this rank's cores, at most 16
---@field work? moonring.WorkCount progress counter, to which each encoded row is added
---@field seed? integer seed of numpy's random generator, which is used for val_size,
---   interleave_probs and num_samples in dataset_info.json; default 42

---@class moonring.DatasetOptions: moonring.ExampleOptions
---@field names string[] entries of dataset_info.json, in the order in which their data sets are
---   read
---@field dir? string folder of dataset_info.json; default "data"
---@field dir_is_checkout? boolean whether `dir` is a checkout in a hub's cache; file names must
---   then stay inside it
---@field fetched? table<string, { files: string[], split?: string, entry?: string }> by name: for
---   data sets that are stored on a hub their downloaded files, and the split to read; for files
---   that dataset_info.json does not describe, JSON that does
---@field max_samples? integer most rows of each data set
---@field mix_strategy? "concat" | "interleave_under" | "interleave_over" | "interleave_once" how
---   data sets are combined. "concat": one after another; "interleave_under": one row from each in
---   turn until the first data set ends; "interleave_over": in turn until all have ended, where
---   data sets that end earlier start again; "interleave_once": in turn until all have ended, each
---   read once; default "concat"
---@field interleave_probs? number[] probability that the next row comes from each data set; absent:
---   they take turns
---@field val_size? number size of the evaluation split: below 1 a fraction of the rows, else a
---   number of rows; 0 or absent: no evaluation split

---@class moonring.WholeDatasetOptions: moonring.DatasetOptions
---@field held_out_one_turn? boolean whether the examples of the evaluation split are made with
---   one_turn; default false

--- Reads data sets in LLaMA-Factory's formats (alpaca, sharegpt, openai) and converts their rows to
--- examples: token ids and labels that are not shifted. Examples are in the order of names and
--- rows; with val_size, in the order in which rows were sampled. Error messages name the data set,
--- and file, line and row where possible.
---@param options moonring.WholeDatasetOptions
---@return moonring.Dataset train
---@return moonring.Dataset? held_out the evaluation split, if val_size is given
function data.load(options) end

---@class moonring.StreamOptions: moonring.DatasetOptions
---@field val_size? integer number of rows in each pass that are held out for evaluation; default
---   none
---@field buffer_size? integer rows in the shuffle buffer; default 16384
---@field shuffle? boolean whether rows are shuffled; default true
---@field lanes? integer number of shards in which the data sets are read, each with its own shuffle
---   buffer; batches come from the shards in turn; default 1
---@field only_held_out? boolean whether to read only the rows that val_size holds out, instead of
---   the others; default false

--- Opens data sets that are read while the training runs, in one pass after another. Rows are
--- shuffled in a buffer, in the same order as LLaMA-Factory's streaming. The option max_samples is
--- refused. Errors: as `load`; an error in a row is raised by the step that would contain the row.
---@param options moonring.StreamOptions
---@return moonring.Stream
function data.stream(options) end

---@class moonring.TokenizedOptions
---@field path string the data set's folder
---@field tokenizer moonring.Tokenizer
---@field template moonring.WholeTemplate chat template, whose padding token is not trained on in
---   stage pt; default: the template "default"
---@field stage? "pt" | "sft" | "rm" | "dpo" | "kto" the training stage, which decides the columns
---   that the files must have; default "sft"
---@field length_column? string name of a column with each example's length; if the files have it,
---   `group_by_length` uses it
---@field with_train? boolean false: the split "train" is not read; default true

--- Reads tokenized examples from a folder that the datasets library's save_to_disk, or
--- save_tokenized, wrote. Returns the data sets by split ("train", "validation", ..). Error
--- messages name file and row. Errors: a missing folder or shard, columns of another stage.
---@param options moonring.TokenizedOptions
---@return table<string, moonring.Dataset>
function data.load_tokenized(options) end

--- Creates a word segmenter like jieba, which can also compare texts. It reads its word list, about
--- 6 MB, from Moonring's files.
---@return moonring.WordSegmenter
function data.word_segmenter() end

--- Writes tokenized examples to a folder that `load_tokenized` and the datasets library can read.
--- The folder is written completely or not at all.
---@param path string
---@param splits table<string, moonring.Dataset>
---@param stage string
function data.save_tokenized(path, splits, stage) end

--- Raises NOT_FOUND, with the nearest known name, if no tool-call format has this name.
---@param name string
function data.check_tool_format(name) end

--- Returns the files of the split "train" in a folder of tokenized examples, in the order of their
--- rows.
---@param path string
---@return string[]
function data.tokenized_train_files(path) end

--- Whether a folder with tokenized examples exists and is not empty.
---@param path string
---@return boolean
function data.has_tokenized(path) end

--- Text from bytes that come piece by piece, as a model's tokens do.
---@param bytes string
---@return string text the whole characters; malformed bytes are replaced by U+FFFD
---@return string rest the bytes of a character that is incomplete at the end
function data.whole_characters(bytes) end

---@class moonring.Tokenizer
local Tokenizer = {}

--- Encodes a text. No bos or eos is added; special tokens that are written in the text are
--- recognized.
---@param text string UTF-8; malformed bytes become U+FFFD
---@return integer[]
function Tokenizer:encode(text) end

--- Decodes ids to text. Unknown ids are skipped.
---@param ids integer[]
---@param skip_special? boolean whether special tokens are omitted; default false
---@return string
function Tokenizer:decode(ids, skip_special) end

--- The bytes that a token adds to a text inside of it (not at its beginning, where some decoders
--- drop a space). They may be a part of a character; "" for an unknown id. The second result says
--- whether it is a special token.
---@param id integer
---@return string bytes
---@return boolean is_special
function Tokenizer:token_bytes(id) end

--- The id of the bos token, or nil.
---@return integer?
function Tokenizer:bos() end

--- The id of the eos token, or nil.
---@return integer?
function Tokenizer:eos() end

--- The id of the bos token, if the tokenizer's post-processor puts it before each text; else nil.
--- `encode` does not add it.
---@return integer?
function Tokenizer:leading_bos() end

--- Number of tokens, including added ones.
---@return integer
function Tokenizer:vocab_size() end

--- Largest token id plus one: the number of embedding rows that a model must have.
---@return integer
function Tokenizer:end_id() end

--- Returns a token as it is written in the vocabulary; "" for an unknown id.
---@param id integer
---@return string
function Tokenizer:token_of(id) end

--- The ids of the special tokens in additional_special_tokens, including stop words, but without
--- tokens that have a named role (bos, eos, pad, ..).
---@return integer[]
function Tokenizer:more_special_ids() end

--- The ids of tokens that were added, or made special, after the tokenizer's files were read.
---@return integer[]
function Tokenizer:added_ids() end

--- The id of the eos token if it differs from the eos in the tokenizer's files, else nil.
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
---@param texts string[] the messages; the first and the last are the user's, those between
---   alternate
---@param system? string system text; if absent or "", the template's default
---@return integer[]
function Template:encode_prompt(texts, system) end

--- Encodes a chat request in OpenAI's form as a prompt for the model's next answer. Of its fields
--- `messages`, `tools` and `tool_choice` are read; those that only a model's own template has are
--- refused. Errors: INVALID_ARGUMENT with the field's path; UNIMPLEMENTED for parts that are no
--- text.
---@param request string JSON: the order of keys, as in a tool's description, is that of the prompt
---@return integer[]
function Template:encode_chat(request) end

--- Encodes what stands between an answer that the model has generated and its next answer: the end
--- of the answer's turn, unless the answer ended with a stop id, and a message. Errors:
--- INVALID_ARGUMENT for another role, and for a user's message if the template numbers turns.
---@param role "tool" | "user"
---@param text string the message, such as a tool's result
---@param last integer the last id of the answer
---@return integer[]
function Template:encode_next(role, text, last) end

--- The tokenizer that this template uses: the one passed to data.template, to which the tokens that
--- end an answer were added as special tokens.
---@return moonring.Tokenizer
function Template:tokenizer() end

--- The ids that end an answer: eos and the template's stop words, without duplicates.
---@return integer[]
function Template:stop_ids() end

--- The id of the token that ends a turn in training examples.
---@return integer
function Template:eos() end

function Template:close() end

--- A Jinja chat template from a model's files, rendered as Transformers' apply_chat_template does.
---@class moonring.ModelTemplate
local ModelTemplate = {}

--- Encodes a conversation as a prompt for the model's next answer. The template is rendered with a
--- generation prompt, and special tokens in the result are recognized. Errors: INVALID_ARGUMENT for
--- an even number of texts, and for an error that the template raises, with the template's line.
---@param texts string[] the messages; the first and the last are the user's, those between
---   alternate
---@param system? string system message before them; if absent or "", there is none
---@param enable_thinking? boolean value of the template's variable enable_thinking; if absent, the
---   variable is undefined
---@return integer[]
function ModelTemplate:encode_prompt(texts, system, enable_thinking) end

--- Encodes a chat request in OpenAI's form, as Template:encode_chat does. It may also have
--- chat_template_kwargs (an object: variables of the template), add_generation_prompt and
--- continue_final_message (the last message is the beginning of the answer).
---@param request string JSON
---@param system? string system message of a conversation that has none
---@param enable_thinking? boolean value of that variable, if the request has none
---@return integer[]
function ModelTemplate:encode_chat(request, system, enable_thinking) end

--- The fields of a chat template table, derived from the Jinja template in the same way as
--- LLaMA-Factory does if a configuration names no template. Errors: INVALID_ARGUMENT if the
--- template refuses a test conversation or drops one of its messages.
---@return moonring.TemplateTable
function ModelTemplate:fields() end

--- How the template renders a message's reasoning text (the field reasoning_content, reasoning or
--- thinking). The list contains the text before it, the text after it, and the value of
--- thought_trim; {} if the template does not render reasoning text. Errors: as `fields`.
---@return string[]
function ModelTemplate:thoughts() end

--- Whether the model has several chat templates with names.
---@return boolean
function ModelTemplate:is_one_of_several() end

function ModelTemplate:close() end

---@class moonring.Document
---@field ids integer[]
---@field labels integer[] not shifted; -100: the model is not trained to predict this token

--- Training examples, as `moonring preprocess` writes them.
---@class moonring.Dataset
local Dataset = {}

--- Number of examples.
---@return integer
function Dataset:size() end

--- Returns one example. Errors: OUT_OF_RANGE.
---@param index integer from 0
---@return moonring.Document[] documents one document (pt, sft); the chosen and the rejected answer
---   (rm, dpo); or the answer and an answer of another row (kto)
---@return boolean? desirable stage kto: whether the answer is desirable
function Dataset:example(index) end

--- For each example the number of tokens that its forward pass processes.
---@return integer[]
function Dataset:lengths() end

--- Number of tokens of each document, example by example.
---@return integer[]
function Dataset:document_lengths() end

--- The distinct token ids in the examples that are at least `first`.
---@param first integer
---@return integer[]
function Dataset:ids_from(first) end

--- A digest of 40 hexadecimal digits over all ids, labels and desirable flags (kto), in the
--- examples' order.
---@return string
function Dataset:digest() end

--- A readable report of what was read, truncated and skipped. For training data it includes a
--- histogram of lengths.
---@param use? "learnt" | "evaluated" "learnt": the data is for training, "evaluated": for
---   evaluation; default "learnt"
---@param other? moonring.Dataset another data set that the report includes
---@return string
function Dataset:report(use, other) end

--- How each row was truncated, for examples made with the option one_turn; {} for others.
---@return moonring.RowUse[]
function Dataset:row_uses() end

---@class moonring.RowUse
---@field where string FILE:LINE (row N)
---@field left_out? string the reason, if the row was skipped
---@field prompt_cut integer number of prompt tokens that were removed to meet cutoff_len
---@field answer_cut integer number of answer tokens that were removed to meet cutoff_len

--- The report as a JSON object with the keys rows, examples, tokens, learnt (number of tokens
--- trained on), truncated (number of examples), starved (number of truncated examples that keep
--- less than a tenth of their labels, or fewer than four), nothing_learnt (number of examples
--- without labels), longest, left_over; skipped and noted (lists of what, count, first); lengths
--- (list of from, to, rows).
---@return string
function Dataset:report_json() end

--- Returns a warning if cutoff_len removes nearly all labels from most rows; else nil.
---@return string?
function Dataset:cut_warning() end

---@class moonring.StepsOptions
---@field mesh? moonring.Mesh mesh of ranks, over whose dp axis each step is divided; default: this
---   process gets the whole step
---@field batch integer examples in a step, over all dp ranks
---@field micro_batch_tokens integer most tokens in a micro-batch; a longer example gets a
---   micro-batch of its own
---@field share_prefixes? boolean whether documents of an example that begin with the same tokens
---   share them: tokens without labels at the beginning are then processed once (Sequence:parents);
---   default false
---@field seed? integer seed of the order; default 42
---@field shuffle? boolean whether each epoch is shuffled, by torch.randperm with the seed `seed` +
---   epoch; default true
---@field total_steps? integer number of steps; default: unlimited
---@field group_by_length? boolean whether the shuffled examples of each epoch are divided into
---   groups of 50 steps (smaller groups if there would be fewer than four) and each group is sorted
---   by decreasing length, as in Transformers; default false
---@field orders? integer[][] the order of examples in each epoch, as indices from 0 of all
---   examples; replaces seed, shuffle and group_by_length
---@field drop_last? integer batch size; the examples at the end of an epoch that do not fill a
---   batch are skipped. A step consists of several such batches

--- Returns the steps of a training, which a background thread prepares ahead. Which examples a step
--- contains depends only on seed, epoch and step number, not on the number of ranks or on packing.
--- A step never contains examples of two epochs: the last step of an epoch may be smaller.
---@param options moonring.StepsOptions
---@return moonring.Steps
function Dataset:steps(options) end

--- Writes one line of JSON for each example: input_ids and labels; in stages rm and dpo
--- chosen_input_ids, chosen_labels, rejected_input_ids, rejected_labels; in stage kto also
--- kl_input_ids, kl_labels, kto_tag. The file is written completely or not at all.
---@param path string
function Dataset:write(path) end

function Dataset:close() end

--- A source of examples from data sets that are read while the training runs.
---@class moonring.Stream
local Stream = {}

--- Always nil, because the number of examples is not known.
---@return integer?
function Stream:size() end

---@class moonring.StreamStepsOptions
---@field mesh? moonring.Mesh as in Dataset:steps
---@field batch integer examples in a batch; the last batch of a shard may be smaller
---@field batches? integer batches in a step, over all dp ranks; default 1
---@field micro_batch_tokens integer most tokens in a micro-batch; a longer example gets a
---   micro-batch of its own
---@field share_prefixes? boolean as in Dataset:steps
---@field total_steps? integer number of steps; default: unlimited

--- Returns the steps of a training, from the beginning of the first pass. An epoch is one pass over
--- the data; the indices of examples continue to increase in later passes. A stream can have only
--- one such object at a time.
---@param options moonring.StreamStepsOptions
---@return moonring.Steps
function Stream:steps(options) end

--- Reads the first pass into memory and returns it as a data set, in the order of its batches.
---@param batch integer
---@return moonring.Dataset
function Stream:whole(batch) end

--- The report of Dataset:report for the rows read so far, which may be more than the steps have
--- used.
---@return string
function Stream:report() end

--- The report of Dataset:report_json for the rows read so far.
---@return string
function Stream:report_json() end

--- The warning of Dataset:cut_warning for the rows read so far.
---@return string?
function Stream:cut_warning() end

function Stream:close() end

---@class moonring.Steps
local Steps = {}

--- Returns the next step; nil after the last.
---@return moonring.Step?
function Steps:next() end

--- Returns the position after the step that `next` returned last, as text, from which `load_state`
--- can resume.
---@return string
function Steps:save_state() end

--- Continues from a position that save_state returned. Raises an error, and changes nothing, if
--- the position is not at a step boundary for this number of examples per step.
---@param state string
function Steps:load_state(state) end

function Steps:close() end

--- One document of token ids.
---@class moonring.GivenDocument
---@field ids integer[]
---@field labels? integer[] not shifted; -100: the model is not trained to predict this token.
---   Default: the ids
---@field positions? integer[] for the rotary embedding; default: from 0

--- An example with one document (ids, labels, positions), or with several in `documents`.
---@class moonring.GivenExample: moonring.GivenDocument
---@field documents? moonring.GivenDocument[] replaces ids, labels and positions
---@field number? integer index of the example, which `examples` of the step and of its
---   micro-batches reports, and which selects the example's random noise; default: the position in
---   the list, from 0
---@field family? integer examples with the same number, such as the answers to one prompt, form a
---   family: with share_prefixes they share their common first tokens, as the documents of one
---   example do. Default: no families

---@class moonring.StepOptions
---@field examples moonring.GivenExample[] with `mesh`: all examples of the step, the same list on
---   each rank; without: those of this sp group
---@field mesh? moonring.Mesh mesh of ranks, over whose dp axis the examples are divided. The call
---   is then collective over all ranks. Default: they are not divided, so that each sp group may
---   pass examples of its own; give those their own `number`, which selects their random noise
---@field micro_batch_tokens integer most tokens in a micro-batch; a longer example gets a
---   micro-batch of its own
---@field epoch? integer from 0; default 0
---@field step? integer number of the step in its epoch, from 0; default 0
---@field last? boolean whether this is the last step of its epoch; default false
---@field share_prefixes? boolean whether the documents of an example, and of a family (see
---   GivenExample), share their common first p tokens, if these have no labels: they are then
---   processed once (Sequence:parents). A family stays in one micro-batch, where it takes p tokens
---   plus the remaining tokens of its documents. It is split between examples, and each part gets a
---   copy of the prefix, if it is longer than a micro-batch or would make other dp ranks wait;
---   default false

--- Makes a step from given token ids, packed like the steps of a data set. Errors:
--- INVALID_ARGUMENT, with the example's number, if an example has no tokens, or if its numbers of
--- ids, labels and positions differ; INVALID_ARGUMENT, on all ranks, if the ranks of `mesh` passed
--- different examples.
---@param options moonring.StepOptions
---@return moonring.Step
function data.step(options) end

--- The examples of one optimizer step.
---@class moonring.Step
local Step = {}

--- The epoch, from 0.
---@return integer
function Step:epoch() end

--- The number of the step in its epoch, from 0.
---@return integer
function Step:index() end

--- Whether this is the last step of its epoch.
---@return boolean
function Step:last() end

--- Number of tokens in the whole step, over all dp ranks. Documents with another row's answer
--- (stage kto) are not counted. A prefix that documents share counts in each of them.
---@return integer
function Step:tokens() end

--- Sum of T^2 over the documents that `tokens` counts, where T is a document's number of tokens.
---@return number
function Step:squares() end

--- Number of examples in the whole step, over all dp ranks.
---@return integer
function Step:size() end

--- The number of dp ranks over which the step is divided; 1: this rank's sp group has all of it.
---@return integer
function Step:dp_size() end

--- Indices into the data set, from 0, of all examples in the step, on all dp ranks.
---@return integer[]
function Step:examples() end

--- This dp rank's part of the step, packed into micro-batches; may be empty. It is the same on
--- every rank of an sp group.
---@return moonring.MicroBatch[]
function Step:micro_batches() end

--- For each example of the whole step, in the order of `examples`, the number of tokens that its
--- forward pass processes.
---@return integer[]
function Step:lengths() end

--- For stages that generate answers: the prompts of all examples in the step, on all dp ranks, each
--- with its row of the data set as JSON. Errors: INVALID_ARGUMENT in other stages.
---@return { ids: integer[], row: string }[]
function Step:prompts() end

--- Packs the step again: each list of positions in the step, from 0, becomes a micro-batch, and
--- micro-batches are assigned to dp ranks by cost. Documents with another row's answer (stage kto)
--- stay as they are. Errors: INVALID_ARGUMENT if a position is missing or appears twice.
---@param groups integer[][]
---@param mesh? moonring.Mesh
function Step:regroup(groups, mesh) end

--- Returns a copy of the step whose micro-batches are those that Dataset:steps would make with this
--- micro_batch_tokens.
---@param micro_batch_tokens integer
---@param mesh? moonring.Mesh
---@return moonring.Step
function Step:repacked(micro_batch_tokens, mesh) end

--- Stage kto: documents with a prompt and another row's answer, for the KL term; this dp rank's
--- share, packed separately. They need not belong to the examples of this rank. Empty in other
--- stages.
---@return moonring.MicroBatch[]
function Step:mismatched() end

function Step:close() end

--- The documents that one sp group processes in one forward pass.
---@class moonring.MicroBatch
local MicroBatch = {}

--- The documents, grouped by example (see `document_counts`). A prefix that documents share comes
--- before the first of these documents (Sequence:parents).
---@return moonring.Sequence
function MicroBatch:sequence() end

--- Labels: int64 [T], not shifted; -100: the model is not trained to predict this token.
---@return moonring.Tensor
function MicroBatch:labels() end

--- Indices into the data set, from 0, in the order of the documents.
---@return integer[]
function MicroBatch:examples() end

--- The positions of these examples in the step, from 0.
---@return integer[]
function MicroBatch:places() end

--- Number of documents in each example: 1; 2 for pairs (chosen, rejected); several for examples
--- packed by neat_packing. A shared prefix is not counted (Sequence:own_documents).
---@return integer[]
function MicroBatch:document_counts() end

--- Stage kto: whether the answer of each example is desirable; nil in other stages.
---@return boolean[]?
function MicroBatch:desirable() end

function MicroBatch:close() end

return data
