--- Keys of the data. What a row says: keys/init.lua.
local null = require("moonring.native.system").null

return {
  { title = "Data", rows = {
    { "dataset", "list", null, "names from dataset_info.json" },
    { "data_source", "string", null, "rows of one's own in place of data sets (docs/data.md): a "
      .. "Lua file that returns a source, or a function of (config, tokenizer) that makes it; read "
      .. "as it is used where max_steps is given, else to its end", own_file = true },
    { "eval_dataset", "list", null, "names of data sets to evaluate on; excludes val_size",
      resume = "free" },
    { "dataset_dir", "string", "data", "the folder of dataset_info.json", resume = "free",
      machine = true },
    { "template", "string", null, "the chat template: a name (moonring help templates) or a file "
      .. "of "
      .. "one's own (PATH.lua); absent: told from the model's chat_template, or empty" },
    { "cutoff_len", "int", 2048, "tokens of an example, prompt and response, at most", least = 1 },
    { "overlong", "string", "truncate", "what becomes of a longer example",
      choices = { "truncate", "drop", "error" } },
    { "train_on_prompt", "bool", false, "learn the prompt's tokens too", stages = { "sft" } },
    { "mask_history", "bool", false, "learn the last turn alone", stages = { "sft" } },
    { "streaming", "bool", false, "read the data as it is used, shuffled in a buffer, never all in "
      .. "memory, as LLaMA-Factory orders it; wants max_steps" },
    { "buffer_size", "int", 16384, "streaming: rows of the shuffle buffer", least = 1,
      of = "streaming" },
    { "mix_strategy", "string", "concat", "data sets one after another, or interleaved until the "
      .. "first is through (under), or all are, each again from its beginning (over) or once",
      choices = { "concat", "interleave_under", "interleave_over", "interleave_once" } },
    { "interleave_probs", "list", null, "how likely each data set is to give the next row; absent: "
      .. "they take turns", of = { "mix_strategy", "interleave_under", "interleave_over",
        "interleave_once" } },
    { "max_samples", "int", null, "rows of each data set at most", least = 1 },
    { "val_size", "float", 0.0,
      "examples held out for evaluation: below 1 a part of the data set, else their number",
      least = 0 },
    { "packing", "bool", null, "stage pt: join the texts and cut them at cutoff_len; absent: true "
      .. "there; given as true: at cutoff_len - 1, as LLaMA-Factory does. Stage sft: "
      .. "LLaMA-Factory's rows of cutoff_len tokens, whose texts see each other. Without it "
      .. "documents are packed exactly", stages = { "pt", "sft" } },
    { "neat_packing", "bool", false, "stage sft: rows of cutoff_len tokens as LLaMA-Factory forms "
      .. "them, each text by itself", stages = { "sft" } },
    { "ignore_pad_token_for_loss", "bool", true, "no loss on padding",
      only = "there is no padding that could be learnt" },
    { "preprocessing_batch_size", "int", 1000, "rows that are joined or packed together (packing, "
      .. "neat_packing), or whose answers are exchanged (kto)", least = 1 },
    { "preprocessing_num_workers", "int", null,
      "threads that prepare rows, no more than cores and rows; absent: the cores of this rank, 16 "
        .. "at most. Examples are "
      .. "the same for any number (LLaMA-Factory's, where rows are packed or mismatched, begin "
      .. "batches of their own)", least = 1, resume = "free", machine = true },
    { "dataloader_num_workers", "int", 0, "streaming: parts that each data set is read in, each "
      .. "with a buffer of its own, as the processes of LLaMA-Factory are; 0: one part. Else one "
      .. "thread prepares steps ahead, whatever this says", least = 0, resume = "free",
      of = "streaming" },
    { "dataloader_pin_memory", "bool", true, "pinned host memory",
      ignored = "a step's tokens are copied as they are" },
    { "dataloader_drop_last", "bool", false, "leave out what of an epoch fills no batch of "
      .. "per_device_train_batch_size x dp; a stream has every row, as in LLaMA-Factory" },
    { "overwrite_cache", "bool", false, "compute reference log-probs again; prepared data is not "
      .. "cached", resume = "free" },
    { "tokenized_path", "string", null, "a folder of prepared data, in the form of the datasets "
      .. "library's save_to_disk, which LLaMA-Factory writes: read in place of the data sets where "
      .. "it is there, else written once they are prepared", resume = "free", machine = true },
    { "default_system", "string", null, "the system prompt where an example has none" },
    { "tool_format", "string", null, "how tools and their calls are written, by name; absent: as "
      .. "the template does" },
    { "enable_thinking", "bool", true, "reasoning templates: an answer without a thought learns an "
      .. "empty one; false: thoughts are taken out, an empty one is given; null: they stay, and an "
      .. "empty one is given where there is none", nullable = true },
    { "preserve_thinking", "bool", false, "reasoning templates: earlier answers keep their "
      .. "thoughts "
      .. "in pairs, judged answers, chats and with mask_history" },
    { "eval_on_each_dataset", "bool", false, "evaluate the data sets of eval_dataset one by one: "
      .. "eval_NAME_loss and so on", resume = "free" },
    { "group_by_length", "bool", false, "batches of like lengths: an epoch's order is cut into "
      .. "groups of 50 steps (fewer where it has not four such groups), and each is sorted, the "
      .. "longest example first, as Transformers does; the longest of all comes first. "
      .. "disable_shuffling wins; evaluations keep their order" },
    { "length_column_name", "string", "length", "group_by_length: the column of tokenized_path's "
      .. "rows with their lengths; where there is none an example's tokens are counted",
      of = "group_by_length" },
    { "data_shared_file_system", "bool", false, "one node prepares for all",
      ignored = "each machine prepares its data in memory" },
    { "remove_unused_columns", "bool", false, "drop columns",
      ignored = "columns that dataset_info.json does not name are not read" },
  } },
}
