--- Keys of the data. Fields of a row: keys/init.lua.
local null = require("moonring.native.system").null

return {
  { title = "Data", rows = {
    { "dataset", "list", null, "names from dataset_info.json, or paths of files (docs/data.md)" },
    { "data_source", "string", null, "custom rows instead of data sets (docs/data.md): a Lua file "
      .. "that returns a source, or a function of (config, tokenizer) that creates one. With "
      .. "max_steps rows are read during training; otherwise all are read first", own_file = true },
    { "eval_dataset", "list", null, "data sets to evaluate on, given as in dataset; cannot be "
      .. "combined with val_size",
      resume = "free" },
    { "dataset_dir", "string", "data", "the folder of dataset_info.json; builtin:quickstart, "
      .. "REMOTE:ORG/NAME, or ONLINE (docs/data.md)", resume = "free", machine = true },
    { "template", "string", null, "the chat template: a name (moonring help templates) or a custom "
      .. "file (PATH.lua); absent: derived from the model's chat_template, or empty" },
    { "cutoff_len", "int", 2048, "tokens of an example, prompt and response, at most", least = 1 },
    { "overlong", "string", "truncate", "treatment of longer examples: cut them, drop them, or end "
      .. "with an error",
      choices = { "truncate", "drop", "error" } },
    { "train_on_prompt", "bool", false, "also train on the prompt's tokens", stages = { "sft" } },
    { "mask_history", "bool", false, "train on the last turn only", stages = { "sft" } },
    { "streaming", "bool", false, "read the data during training through a shuffle buffer, in "
      .. "LLaMA-Factory's order, instead of loading it into memory; requires max_steps" },
    { "buffer_size", "int", 16384, "streaming: rows in the shuffle buffer", least = 1,
      of = "streaming" },
    { "mix_strategy", "string", "concat", "concatenate data sets, or interleave them: until the "
      .. "first one ends (under), until all have ended, restarting those that end early (over), or "
      .. "each once (once)",
      choices = { "concat", "interleave_under", "interleave_over", "interleave_once" } },
    { "interleave_probs", "list", null, "probability of each data set to provide the next row; "
      .. "absent: they alternate", of = { "mix_strategy", "interleave_under", "interleave_over",
        "interleave_once" } },
    { "max_samples", "int", null, "maximum number of rows of each data set", least = 1 },
    { "val_size", "float", 0.0, "examples held out for evaluation: below 1 a fraction of the data "
      .. "set, otherwise their number",
      least = 0 },
    { "packing", "bool", null, "stage pt: concatenate the texts and cut them at cutoff_len; "
      .. "default there: true. If set to true explicitly: at cutoff_len - 1, as in LLaMA-Factory. "
      .. "Stage sft: LLaMA-Factory's rows of cutoff_len tokens, whose texts attend to each other. "
      .. "Without it documents are packed and do not attend to each other",
      stages = { "pt", "sft" } },
    { "neat_packing", "bool", false, "stage sft: rows of cutoff_len tokens as LLaMA-Factory packs "
      .. "them; texts do not attend to each other", stages = { "sft" } },
    { "ignore_pad_token_for_loss", "bool", true, "no loss on padding",
      only = "there is no padding to train on" },
    { "preprocessing_batch_size", "int", 1000, "rows that are concatenated or packed together "
      .. "(packing, neat_packing), or among which answers are exchanged (kto)", least = 1 },
    { "preprocessing_num_workers", "int", null, "threads that prepare rows, at most one per core "
      .. "and row; absent: the cores of this rank, at most 16. The result does not depend on it "
      .. "(in LLaMA-Factory it does for packed or mismatched rows, because each worker forms its "
      .. "own batches)", least = 1, resume = "free", machine = true },
    { "dataloader_num_workers", "int", 0, "streaming: number of shards that each data set is read "
      .. "in, each with its own shuffle buffer, like the worker processes of LLaMA-Factory; 0: "
      .. "one. Without streaming one thread always prepares steps ahead",
      least = 0, resume = "free",
      of = "streaming" },
    { "dataloader_drop_last", "bool", false, "drop the last examples of an epoch if they do not "
      .. "fill a batch of per_device_train_batch_size x dp; streaming uses every row, as in "
      .. "LLaMA-Factory" },
    { "overwrite_cache", "bool", false, "recompute reference log-probs; prepared data is not "
      .. "cached", resume = "free" },
    { "tokenized_path", "string", null, "a folder of prepared data in the format of the datasets "
      .. "library's save_to_disk, which LLaMA-Factory writes. If it exists it is read instead of "
      .. "the data sets; otherwise it is written after they are prepared",
      resume = "free", machine = true },
    { "default_system", "string", null, "the system prompt of examples without one" },
    { "tool_format", "string", null, "format of tools and tool calls, by name; absent: the "
      .. "template's" },
    { "enable_thinking", "bool", true, "reasoning templates. true: answers without a thought are "
      .. "trained to begin with an empty one; false: thoughts are removed and an empty one is part "
      .. "of the prompt; null: thoughts are kept, and where there is none an empty one is part of "
      .. "the prompt", nullable = true },
    { "preserve_thinking", "bool", false, "reasoning templates: keep the thoughts of earlier "
      .. "answers in pairs, judged answers and chats, and with mask_history" },
    { "eval_on_each_dataset", "bool", false, "evaluate each data set of eval_dataset separately: "
      .. "eval_NAME_loss and so on", resume = "free" },
    { "group_by_length", "bool", false, "batches of similar lengths: an epoch's order is divided "
      .. "into groups of 50 steps (fewer if it has less than four such groups), and each group is "
      .. "sorted by length, longest first, as in Transformers; the longest example of all comes "
      .. "first. disable_shuffling wins; evaluations keep their order" },
    { "length_column_name", "string", "length", "group_by_length: the column with lengths in "
      .. "tokenized_path's rows; without such a column the tokens of examples are counted",
      of = "group_by_length" },
  } },
}
