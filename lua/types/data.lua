---@meta moonring.native.data

--- Tokenizers, chat templates, data sets, and the steps drawn from them.
---@class moonring.native.data
local data = {}

---@class moonring.TokenizerOptions
---@field add_tokens? string[] new tokens with the next free ids
---@field add_special_tokens? string[] special ones behind them
--- a special token that is written in a text is a text like any other; false where absent
---@field split_special_tokens? boolean

--- A chat template with every field, as moonring.templates.find gives it.
---@class moonring.WholeTemplate

--- A tokenizer out of a model's files. What they are: moonring.data.tokenizer.
---@param files table<string, string> contents by name
---@param where string the model's folder, for messages
---@param options? moonring.TokenizerOptions
---@return moonring.Tokenizer
function data.tokenizer(files, where, options) end

--- Those of a model's files that its tokenizer, with tokens added, wants otherwise; none where
--- nothing was added.
---@param files table<string, string> contents by name
---@param tokenizer moonring.Tokenizer
---@return table<string, string> files name -> contents
function data.changed_files(files, tokenizer) end

--- A chat template for a tokenizer. What ends its answers and the tokenizer lacks is added to it:
--- see Template:tokenizer. Errors: INVALID_ARGUMENT where a slot names a token that the tokenizer
--- lacks, and it has no unknown one.
---@param template moonring.WholeTemplate
---@param tokenizer moonring.Tokenizer
---@param system? string in place of the template's own system text; "" for none
---@return moonring.Template
function data.template(template, tokenizer, system) end

--- The chat template that a model's files carry, or nil: moonring.data.model_template.
---@param files table<string, string> contents by name
---@param tokenizer moonring.Tokenizer
---@param where string the model's folder, for messages
---@return moonring.ModelTemplate?
function data.model_template(files, tokenizer, where) end

--- How rows become examples.
---@class moonring.ExampleOptions
---@field tokenizer moonring.Tokenizer
---@field template moonring.WholeTemplate
---@field default_system? string the system text where an example has none
---@field cutoff_len? integer tokens of an example, prompt and response, at most; 2048 where absent
---@field train_on_prompt? boolean learn the prompt's tokens too; false where absent
---@field mask_history? boolean learn the last turn alone; false where absent
--- what becomes of a longer example; "truncate" where absent
---@field overlong? "truncate" | "drop" | "error"
---@field stage? "pt" | "sft" | "rm" | "dpo" | "kto" what the examples are for; "sft" where absent
--- stage pt: join the texts and cut them in blocks of cutoff_len; true where absent. Stage sft:
--- pack them into rows of cutoff_len + 1
---@field packing? boolean
---@field neat_packing? boolean stage sft: such rows, their texts apart; false where absent
--- stage sft: an example is what stands before a row's last answer, and that answer, cut as one
--- turn; false where absent
---@field one_turn? boolean
--- rows that are joined (pt) or mismatched (kto) together; 1000 where absent
---@field preprocessing_batch_size? integer
--- that prepare rows; they change nothing but the time. This rank's cores where absent, 16 at most
---@field threads? integer
---@field work? moonring.WorkCount counts the rows that are encoded
--- of what numpy draws: val_size's choice, interleave_probs, num_samples of a description; 42 where
--- absent
---@field seed? integer

---@class moonring.DatasetOptions: moonring.ExampleOptions
---@field names string[] from dataset_info.json, in the order in which they are joined
---@field dir? string the folder of dataset_info.json; "data" where absent
---@field dir_is_checkout? boolean it is one of a hub's cache: its names stay inside of it
--- of data sets that lie on a hub, by name: their downloaded files, and what of "split" is asked of
--- their rows
---@field fetched? table<string, { files: string[], split: string }>
---@field max_samples? integer rows of each data set at most
--- data sets one after another, or interleaved until the first is through (under), or all are, each
--- again from its beginning (over) or once; "concat" where absent
---@field mix_strategy? "concat" | "interleave_under" | "interleave_over" | "interleave_once"
--- how likely each data set is to give the next row; absent: they take turns
---@field interleave_probs? number[]
--- hold rows out: a part of them below 1, above 1 their number; none where absent or 0
---@field val_size? number

---@class moonring.WholeDatasetOptions: moonring.DatasetOptions
--- what val_size holds out is made with one_turn; false where absent
---@field held_out_one_turn? boolean

--- Reads data sets in LLaMA-Factory's forms (alpaca, sharegpt, openai) and makes examples of them:
--- ids and unshifted labels, in the order of names and rows, or with val_size in the order in which
--- the rows were drawn. Errors name the data set, and the file, line and row where there is one.
---@param options moonring.WholeDatasetOptions
---@return moonring.Dataset train
---@return moonring.Dataset? held_out with val_size
function data.load(options) end

---@class moonring.StreamOptions: moonring.DatasetOptions
---@field val_size? integer rows of a pass that are held out; none where absent
---@field buffer_size? integer rows of the shuffle buffer; 16384 where absent
---@field shuffle? boolean false: the rows stay in their order; true where absent
--- parts that the data sets are read in, each with a buffer of its own, batches from them in turn;
--- 1 where absent
---@field lanes? integer
--- the rows that val_size holds out, not the others; false where absent
---@field only_held_out? boolean

--- Data sets that are read as they are used, pass after pass, and shuffled in a buffer:
--- LLaMA-Factory's streaming, row for row. max_samples is refused. Errors as of `load`, but those
--- of a row come with the step that would have it.
---@param options moonring.StreamOptions
---@return moonring.Stream
function data.stream(options) end

---@class moonring.TokenizedOptions
---@field path string the folder
---@field tokenizer moonring.Tokenizer
--- whose pad pretraining does not learn; "default" where absent
---@field template moonring.WholeTemplate
---@field stage? "pt" | "sft" | "rm" | "dpo" | "kto" whose columns are wanted; "sft" where absent
--- a column with each example's length, by which `group_by_length` goes where it is there
---@field length_column? string
---@field with_train? boolean false: without the split train; true where absent

--- Prepared examples by split ("train", "validation", ..) from a folder that the datasets library's
--- save_to_disk wrote, or save_tokenized. Errors name the file and the row: no such folder, a part
--- that is missing, columns of another stage.
---@param options moonring.TokenizedOptions
---@return table<string, moonring.Dataset>
function data.load_tokenized(options) end

--- What cuts texts into words as jieba does, and compares them. Reads the word list that comes with
--- the host, some 6 MB.
---@return moonring.WordSegmenter
function data.word_segmenter() end

--- Writes such a folder, whole or not at all.
---@param path string
---@param splits table<string, moonring.Dataset>
---@param stage string
function data.save_tokenized(path, splits, stage) end

--- Errors: NOT_FOUND where there is no format of tools of this name, with the nearest one.
---@param name string
function data.check_tool_format(name) end

--- The files of such a folder's split train, in the order of its rows.
---@param path string
---@return string[]
function data.tokenized_train_files(path) end

--- Whether there is a folder that is not empty.
---@param path string
---@return boolean
function data.has_tokenized(path) end

---@class moonring.Tokenizer
local Tokenizer = {}

--- Ids of a text. No token is added; special tokens that are written in the text are recognised.
---@param text string UTF-8; malformed bytes become U+FFFD
---@return integer[]
function Tokenizer:encode(text) end

--- The text of ids. Ids that no token has are passed over.
---@param ids integer[]
---@param skip_special? boolean leave special tokens out; false where absent
---@return string
function Tokenizer:decode(ids, skip_special) end

--- Its bos, or nil where it has none.
---@return integer?
function Tokenizer:bos() end

--- Its eos, or nil where it has none.
---@return integer?
function Tokenizer:eos() end

--- The id that the tokenizer puts before each text (its bos), or nil where it puts none. `encode`
--- never does.
---@return integer?
function Tokenizer:leading_bos() end

--- How many tokens there are, added ones included.
---@return integer
function Tokenizer:vocab_size() end

--- One more than its largest id: the rows that a model must have.
---@return integer
function Tokenizer:end_id() end

--- A token as the vocabulary writes it; "" where none has the id.
---@param id integer
---@return string
function Tokenizer:token_of(id) end

--- The ids of its special tokens that have no name of their own (additional_special_tokens), stop
--- words among them.
---@return integer[]
function Tokenizer:more_special_ids() end

--- The ids of tokens that it has beyond its files, or that are special beyond them.
---@return integer[]
function Tokenizer:added_ids() end

--- Its eos where that is another one than its files name, or nil.
---@return integer?
function Tokenizer:new_eos() end

function Tokenizer:close() end

--- Chinese, and what stands between it, in words: jieba's.
---@class moonring.WordSegmenter
local WordSegmenter = {}

--- The words of a text, which join to it: those of jieba 0.42.1's cut.
---@param text string UTF-8; malformed bytes become U+FFFD
---@return string[]
function WordSegmenter:cut(text) end

--- How alike a prediction and its label are, as LLaMA-Factory's predict_with_generate measures it:
--- "bleu-4" over characters, "rouge-1", "rouge-2" and "rouge-l" over words; in percent, rounded to
--- four decimals.
---@param prediction string
---@param label string
---@return table<string, number>
function WordSegmenter:compare(prediction, label) end

function WordSegmenter:close() end

---@class moonring.Template
local Template = {}

--- The ids after which the model is to answer a conversation. Errors: INVALID_ARGUMENT for an even
--- number of texts.
---@param texts string[] what was said, in turns: the user's first and last
---@param system? string the system text; the template's own where absent or ""
---@return integer[]
function Template:encode_prompt(texts, system) end

--- The tokenizer that it encodes with: the one that it was made for, and in it as special tokens
--- what ends an answer.
---@return moonring.Tokenizer
function Template:tokenizer() end

--- The ids that end an answer: eos and the template's stop words, each once.
---@return integer[]
function Template:stop_ids() end

--- The id that ends a turn in training.
---@return integer
function Template:eos() end

function Template:close() end

--- A chat template as a model carries it, rendered as Transformers' apply_chat_template does.
---@class moonring.ModelTemplate
local ModelTemplate = {}

--- The ids after which the model is to answer a conversation: rendered with a generation prompt,
--- special tokens in it parsed. Errors: INVALID_ARGUMENT for an even number of texts, and with the
--- template's line what it raises.
---@param texts string[] what was said, in turns: the user's first and last
---@param system? string a system message before them; none where absent or ""
---@param enable_thinking? boolean what the template sees under that name; nothing where absent
---@return integer[]
function ModelTemplate:encode_prompt(texts, system, enable_thinking) end

--- What LLaMA-Factory tells of it where a configuration names no template: fields of a template's
--- table. Errors: INVALID_ARGUMENT where it refuses a conversation of the probe, or passes over a
--- message.
---@return moonring.TemplateTable
function ModelTemplate:fields() end

--- How it writes a thought that a message has in a field of its own (reasoning_content, reasoning,
--- thinking): what stands before and behind it, and thought_trim's word. Empty where it writes
--- none. Errors: as fields.
---@return string[]
function ModelTemplate:thoughts() end

--- Whether the model carries several under names.
---@return boolean
function ModelTemplate:is_one_of_several() end

function ModelTemplate:close() end

---@class moonring.Document
---@field ids integer[]
---@field labels integer[] unshifted; -100: not learnt

--- Training examples, as `moonring preprocess` writes them.
---@class moonring.Dataset
local Dataset = {}

--- How many examples there are.
---@return integer
function Dataset:size() end

--- One example. Errors: OUT_OF_RANGE.
---@param index integer from 0
---@return moonring.Document[] documents one (pt, sft), chosen and rejected (rm, dpo), or the
---   answer and the mismatched one (kto)
---@return boolean? desirable kto's tag
function Dataset:example(index) end

--- Of each example the tokens that one forward takes of it.
---@return integer[]
function Dataset:lengths() end

--- Of each document of each example its tokens.
---@return integer[]
function Dataset:document_lengths() end

--- Ids at or above `first` that its examples hold, each once.
---@param first integer
---@return integer[]
function Dataset:ids_from(first) end

--- 40 hexadecimal digits of all ids, labels and tags: the same where the examples are the same, in
--- the same order.
---@return string
function Dataset:digest() end

--- What was read, cut and left out, in lines for people; of what is learnt with a histogram of
--- lengths.
---@param use? "learnt" | "evaluated" what its labels are for; learnt where absent
---@param other? moonring.Dataset which is counted with it
---@return string
function Dataset:report(use, other) end

--- What became of each row, where an example is one turn to answer (one_turn); else empty.
---@return moonring.RowUse[]
function Dataset:row_uses() end

---@class moonring.RowUse
---@field where string FILE:LINE (row N)
---@field left_out? string why it gives no example
---@field prompt_cut integer tokens that cutoff_len cost the prompt
---@field answer_cut integer the same of its own answer

--- The same as one JSON object: rows, examples, tokens, learnt, truncated, starved (of these: that
--- keep less than a tenth of their labels, or fewer than four), nothing_learnt, longest, left_over;
--- skipped and noted (what, count, first); lengths (from, to, rows).
---@return string
function Dataset:report_json() end

--- A line where cutoff_len leaves most rows next to nothing to learn; else nil.
---@return string?
function Dataset:cut_warning() end

---@class moonring.StepsOptions
--- each dp rank gets its part of every step; this process alone gets them whole where absent
---@field mesh? moonring.Mesh
---@field batch integer examples of a step, over all dp ranks
---@field micro_batch_tokens integer tokens of a micro-batch at most; a longer example goes alone
--- documents of an example that begin alike, with tokens that none learns, share these: they go
--- through the model once (Sequence:parents); false where absent
---@field share_prefixes? boolean
---@field seed? integer of the order; 42 where absent
--- each epoch in an order of its own, torch.randperm's under seed + epoch; true where absent
---@field shuffle? boolean
---@field total_steps? integer how many steps there are in all; without end where absent
--- each epoch's order is cut into groups of 50 steps, fewer where it has not four such groups, and
--- each of these sorted by length, the longest first, as Transformers does; false where absent
---@field group_by_length? boolean
--- in place of seed, shuffle and group_by_length: of each epoch the indices of all examples, from
--- 0, in their order
---@field orders? integer[][]
--- leave out what of an epoch fills no batch of so many examples; a step is a number of them
---@field drop_last? integer

--- The steps of a training, prepared ahead on a thread of their own. Which examples a step takes
--- depends on (seed, epoch, step) alone, not on ranks or packing. A step never crosses an epoch:
--- the last one of each may be short.
---@param options moonring.StepsOptions
---@return moonring.Steps
function Dataset:steps(options) end

--- Writes one JSON object a line, an example each: input_ids and labels; in stages rm and dpo
--- chosen_input_ids, chosen_labels, rejected_input_ids, rejected_labels; in kto also kl_input_ids,
--- kl_labels, kto_tag. Whole or not at all.
---@param path string
function Dataset:write(path) end

function Dataset:close() end

--- Examples of data sets that are read as they are used.
---@class moonring.Stream
local Stream = {}

--- Nil: nobody knows how many examples there are.
---@return integer?
function Stream:size() end

---@class moonring.StreamStepsOptions
---@field mesh? moonring.Mesh as of a data set's steps
---@field batch integer examples of a batch; a lane's last one is short
---@field batches? integer batches of a step, over all dp ranks; 1 where absent
---@field micro_batch_tokens integer tokens of a micro-batch at most; a longer example goes alone
---@field share_prefixes? boolean as of a data set's steps
---@field total_steps? integer how many steps there are in all; without end where absent

--- The steps of a training, from the beginning of the first pass. An epoch is a pass; indices of
--- examples count on over all passes. One at a time of a stream.
---@param options moonring.StreamStepsOptions
---@return moonring.Steps
function Stream:steps(options) end

--- The first pass as a data set that is held in memory, in the order in which batches of that many
--- examples are taken.
---@param batch integer
---@return moonring.Dataset
function Stream:whole(batch) end

--- As a data set's, of the rows read so far, which may be ahead of the steps.
---@return string
function Stream:report() end

--- As a data set's, of the same rows.
---@return string
function Stream:report_json() end

--- The same warning of the rows read so far; else nil.
---@return string?
function Stream:cut_warning() end

function Stream:close() end

---@class moonring.Steps
local Steps = {}

--- The next step, or nil after the last.
---@return moonring.Step?
function Steps:next() end

--- The place after the last step that was handed out, to go on from later.
---@return string
function Steps:save_state() end

--- Goes on from a saved place. Errors where it is not a border between steps of this many examples;
--- the place is then unchanged.
---@param state string
function Steps:load_state(state) end

function Steps:close() end

--- Token ids at hand, as one document.
---@class moonring.GivenDocument
---@field ids integer[]
---@field labels? integer[] unshifted; -100: not learnt. The ids themselves where absent
---@field positions? integer[] for the rotary embedding; from 0 where absent

--- An example of one document, or of those of a list.
---@class moonring.GivenExample: moonring.GivenDocument
---@field documents? moonring.GivenDocument[] in place of ids, labels and positions
--- what `examples` of the step and of its micro-batches calls it, and randomness is keyed by; its
--- place in the list, from 0, where absent
---@field number? integer
--- with share_prefixes: examples of one number, a group of answers to one prompt, begin alike and
--- share that, as the documents of one example do. Each is a family of its own where absent
---@field family? integer

---@class moonring.StepOptions
---@field examples moonring.GivenExample[] of all dp ranks, the same on each
---@field mesh? moonring.Mesh each dp rank gets its part; this process alone gets all where absent
---@field micro_batch_tokens integer tokens of a micro-batch at most; a longer example goes alone
---@field epoch? integer from 0; 0 where absent
---@field step? integer in the epoch, from 0; 0 where absent
---@field last? boolean whether it is the epoch's last; false where absent
--- documents of an example, and of a family, that begin alike share what none of them learns of it:
--- p tokens, that goes through the model once (Sequence:parents). A family then stays together,
--- p + the sum of what is left long; one that is longer than a micro-batch, or that other dp ranks
--- would wait for, is split between examples, and each part has the prefix again. False where
--- absent
---@field share_prefixes? boolean

--- A step of token ids that the script has, packed as those of a data set are. Errors:
--- INVALID_ARGUMENT, naming the example, where it has no tokens, or other numbers of ids, labels
--- and positions.
---@param options moonring.StepOptions
---@return moonring.Step
function data.step(options) end

--- The examples of one optimizer step.
---@class moonring.Step
local Step = {}

--- From 0.
---@return integer
function Step:epoch() end

--- In the epoch, from 0.
---@return integer
function Step:index() end

--- Whether it is the epoch's last.
---@return boolean
function Step:last() end

--- Of the whole step, over all dp ranks; kto's mismatched documents are not among them. What
--- documents share counts in each.
---@return integer
function Step:tokens() end

--- The sum of T^2 over the same documents, of T tokens each.
---@return number
function Step:squares() end

--- Examples of the whole step, over all dp ranks.
---@return integer
function Step:size() end

--- Indices into the data set, from 0, of the whole step, over all dp ranks.
---@return integer[]
function Step:examples() end

--- This dp rank's part, packed; may be empty. The same on every rank of an sp group.
---@return moonring.MicroBatch[]
function Step:micro_batches() end

--- Of each example of the whole step, in its order: the tokens that one forward takes of it.
---@return integer[]
function Step:lengths() end

--- The prompts that are a step's examples, all dp ranks', of stages that generate: each with its
--- row of the data set, as JSON. Errors: INVALID_ARGUMENT in other stages.
---@return { ids: integer[], row: string }[]
function Step:prompts() end

--- Packs the step anew: each group of places in the step, from 0, is a micro-batch; groups go to dp
--- ranks by cost. kto's mismatched documents stay as they are. Errors: INVALID_ARGUMENT where a
--- place is missing, or there twice.
---@param groups integer[][]
---@param mesh? moonring.Mesh
function Step:regroup(groups, mesh) end

--- The same step with other micro-batches: those that Dataset:steps makes by another
--- micro_batch_tokens.
---@param micro_batch_tokens integer
---@param mesh? moonring.Mesh
---@return moonring.Step
function Step:repacked(micro_batch_tokens, mesh) end

--- kto: this dp rank's part of the mismatched documents, packed by themselves; need not be those of
--- its examples. Empty in other stages.
---@return moonring.MicroBatch[]
function Step:mismatched() end

function Step:close() end

--- What one sp group puts through one forward pass.
---@class moonring.MicroBatch
local MicroBatch = {}

--- Its documents, those of an example after one another (`document_counts`), shared prefixes before
--- the first that goes on from them (Sequence:parents).
---@return moonring.Sequence
function MicroBatch:sequence() end

--- int64 [T], unshifted; -100: not learnt.
---@return moonring.Tensor
function MicroBatch:labels() end

--- Indices into the data set, from 0, in the order of the documents.
---@return integer[]
function MicroBatch:examples() end

--- The same examples' places in the step, from 0.
---@return integer[]
function MicroBatch:places() end

--- How many documents each example has: 1; 2 for pairs (chosen, rejected, chosen, rejected, ...);
--- those of a row of neat_packing. Shared prefixes are not among them (Sequence:own_documents).
---@return integer[]
function MicroBatch:document_counts() end

--- kto: the tag of each example; else nil.
---@return boolean[]?
function MicroBatch:desirable() end

function MicroBatch:close() end

return data
