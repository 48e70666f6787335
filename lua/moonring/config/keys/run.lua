--- Keys of a run (logging, saving, evaluation), of export and of generation. Fields of a row:
-- keys/init.lua.
local null = require("moonring.native.system").null

-- Spellings of "no": YAML 1.1 reads a plain `no` as false.
local NEVER = { ["false"] = "no", off = "no" }

return {
  { title = "Run", resume = "free", rows = {
    { "output_dir", "string", null, "folder for the model, the log and the plot", machine = true },
    { "overwrite_output_dir", "bool", false, "start from the beginning even if the folder is not "
      .. "empty. Without it the run resumes from the newest checkpoint there, as with "
      .. "resume_from_checkpoint: true, and a non-empty folder without a checkpoint is refused" },
    { "do_train", "bool", false, "train; false: only evaluate or generate with the given model. "
      .. "Absent: true unless do_eval or do_predict is" },
    { "do_eval", "bool", false, "evaluate after training (always done unless eval_strategy is no) "
      .. "or, without training, the given model: eval_results.json" },
    { "do_predict", "bool", false, "answer each prompt of eval_dataset (or of the examples held "
      .. "out by val_size) and compare with the row's answer, after training or, without training, "
      .. "with the given model: generated_predictions.jsonl and predict_results.json. Requires "
      .. "predict_with_generate", stages = { "sft" } },
    { "predict_with_generate", "bool", false, "evaluations generate an answer to each row's prompt "
      .. "and compare: eval_bleu-4, eval_rouge-1, eval_rouge-2, eval_rouge-l, and no loss. See the "
      .. "keys under Generation", stages = { "sft" } },
    { "seed", "int", 42, "random seed, for example of the order of examples",
      least = 0, most = 2 ^ 32 - 1,
      resume = "refused" },
    { "data_seed", "int", null, "seed of the order of examples, if it differs from seed", least = 0,
      most = 2 ^ 32 - 1, resume = "refused" },
    { "full_determinism", "bool", false, "on a GPU: deterministic kernels. Attention's backward is "
      .. "slower and, if a micro-batch has few documents and heads, needs more memory, which plan "
      .. "counts. On the CPU runs are always bit-identical" },
    { "logging_steps", "float", 500, "steps between lines of the log; below 1: a fraction of all "
      .. "steps",
      above = 0 },
    { "logging_first_step", "bool", false, "log the first step too" },
    { "disable_tqdm", "bool", null, "print no line for logging steps on the terminal; "
      .. "trainer_log.jsonl has all of them. Same as progress: off if progress is auto" },
    { "progress", "string", "auto", "display of progress on the terminal. bar: a line that is "
      .. "redrawn; plain: a line for each logging step, and one after 30 seconds without output; "
      .. "auto: bar on a terminal, otherwise plain; json: a line of JSON per step on stdout; off: "
      .. "none", choices = { "auto", "bar", "plain", "json", "off" } },
    { "verbose", "bool", false, "show details on the terminal: the mesh, the attention strategy, "
      .. "and the libraries of matrix products; terminal.log in output_dir always has them" },
    { "peak_tflops", "float", null, "peak TFLOP/s of a device, which mfu and mfu_causal in the log "
      .. "are relative to: FLOPs of full or partial training as torchtitan counts them, with "
      .. "attention of each document by its own length, counted in full (mfu) or halved "
      .. "(mfu_causal). Absent: the vendor's figure for known GPUs, in bf16; on a CPU the log has "
      .. "no mfu",
      least = 1e-6, machine = true },
    { "logging_strategy", "string", "steps", "when a line is logged: every logging_steps, at the "
      .. "end of each epoch and of the run, or never", choices = { "steps", "epoch", "no" },
      spellings = NEVER },
    { "plot_loss", "bool", false, "draw training_loss.png" },
    { "report_html", "bool", true, "maintain report.html in output_dir, a self-contained page with "
      .. "curves, memory, times, layouts, samples and configuration. It is written at evaluations, "
      .. "if that takes at most 1 % of the run's time, and at the end" },
    { "memory_report", "bool", false, "report after the first step and at the end the peak memory "
      .. "by category: weights, gradients, optimizer, checkpoint inputs and so on, next to the "
      .. "kernel's figures; memory_report.json. The log then has peak_anonymous_bytes" },
    { "trace", "string", null, "steps (3-5, or 4) for which all ranks record a timeline, in "
      .. "trace-3-5.json in output_dir: Perfetto displays it, and moonring explain summarizes it" },
    { "sample_prompt", "string", null, "a question that the model answers before and after "
      .. "training" },
    { "save_strategy", "string", "steps", "when a checkpoint-N is written; best: after an "
      .. "evaluation that is the best so far, by metric_for_best_model",
      choices = { "no", "steps", "epoch", "best" }, spellings = NEVER },
    { "save_steps", "float", 500, "steps between checkpoints; below 1: a fraction of all steps. "
      .. "The last step is always saved too", of = { "save_strategy", "steps" } },
    { "save_total_limit", "int", null, "number of checkpoints to keep; the best one is kept in "
      .. "addition",
      least = 1 },
    { "save_only_model", "bool", false, "save only the model in checkpoints: no run can resume "
      .. "from them" },
    { "save_safetensors", "bool", true, "the format", only = "only safetensors is supported" },
    { "save_on_each_node", "bool", false, "at the end the first rank of each machine writes the "
      .. "model, if output_dir is not the folder that rank 0 writes to. Requires save_strategy: "
      .. "no, because checkpoints need a folder shared by all ranks" },
    { "eval_strategy", "string", "no", "when to evaluate", choices = { "no", "steps", "epoch" },
      spellings = NEVER },
    { "eval_steps", "float", null, "steps between evaluations; below 1: a fraction of all steps; "
      .. "absent: logging_steps", of = { "eval_strategy", "steps" } },
    { "eval_delay", "float", 0, "no evaluation before this step (eval_strategy: steps) or epoch "
      .. "(epoch), except eval_on_start's and the one after training",
      least = 0, of = "eval_strategy" },
    { "eval_on_start", "bool", false, "evaluate before the first step" },
    { "per_device_eval_batch_size", "int", 8,
      "rows of an evaluation batch; eval_loss is the mean of the batches' means, by rows",
      least = 1 },
    { "load_best_model_at_end", "bool", false, "restore the best checkpoint at the end; "
      .. "save_strategy must equal eval_strategy, or be best",
      of = "eval_strategy" },
    { "metric_for_best_model", "string", null, "the metric that determines the best checkpoint; "
      .. "absent: loss" },
    { "greater_is_better", "bool", null, "whether a greater metric is better; absent: true unless "
      .. "the metric's name ends in loss" },
    { "resume_from_checkpoint", "any", null, "resume from a checkpoint: true (the newest complete "
      .. "one in output_dir), auto (the same, or start from the beginning if there is none), or "
      .. "its folder", spellings = { yes = "true", on = "true", no = "false", off = "false" },
      machine = true },
    { "ignore_data_skip", "bool", false, "resume at the beginning of the data, and accept any "
      .. "change of the configuration; step numbers continue, and the run ends at the same step" },
    { "ddp_timeout", "float", 1800, "time limit of a collective in seconds: a rank that does not "
      .. "respond by then is considered failed. A terminated rank is detected within seconds",
      least = 0, machine = true },
    { "max_restarts", "int", 0, "how often the ranks of this machine's launcher are restarted from "
      .. "the newest checkpoint after one has failed; torchrun has its own --max-restarts, which "
      .. "is honoured", least = 0, most = 1000, machine = true },
    { "use_cpu", "bool", false, "no GPU; the same as --device cpu", machine = true },
    { "no_cuda", "bool", false, "an older name of use_cpu", machine = true },
    { "include_num_input_tokens_seen", "string", "no", "log num_input_tokens_seen, also in "
      .. "log_history, and total_tokens and throughput in trainer_log.jsonl: the tokens processed "
      .. "in training so far. There is no padding, so all (or true) equals non_padding; no (or "
      .. "false): only in trainer_state.json",
      choices = { "no", "all", "non_padding" },
      spellings = { ["true"] = "all", ["false"] = "no" } },
    { "include_effective_tokens_per_second", "bool", false, "effective_tokens_per_sec in "
      .. "train_results.json: tokens trained on per second and rank" },
    { "include_tokens_per_second", "bool", false, "train_tokens_per_second in train_results.json: "
      .. "over all ranks; trainer_log.jsonl always has the rate of each line" },
  } },
  { title = "Export", resume = "free", rows = {
    { "export_dir", "string", null, "moonring export: the folder for the merged model, or the file "
      .. "if it ends in .gguf" },
    { "export_gguf_type", "string", "auto", "type of a .gguf file's weights, as --outtype of "
      .. "llama.cpp's converter; auto: config.json's dtype",
      choices = { "auto", "f32", "f16", "bf16", "q8_0" } },
    { "export_size", "int", 5, "maximum GB per file; a .gguf export is always one file",
      least = 1 },
    { "infer_dtype", "string", "auto", "dtype of the weights in export and chat; auto: unchanged. "
      .. "Training uses bf16 and related keys instead",
      choices = { "auto", "float32", "bfloat16", "float16" } },
    { "export_legacy_format", "bool", false, "pytorch_model.bin",
      only = "only safetensors is supported" },
  } },
  { title = "Generation", resume = "free", rows = {
    { "max_new_tokens", "int", 1024, "maximum tokens of an answer", least = 0 },
    { "temperature", "float", 0.95, "sampling temperature", least = 0 },
    { "top_p", "float", 0.7, "nucleus sampling: cumulative probability of the candidates",
      above = 0, most = 1 },
    { "top_k", "int", 50, "number of candidate tokens; 0: all", least = 0 },
    { "repetition_penalty", "float", 1.0, "penalty on tokens that already occur", above = 0 },
    { "do_sample", "bool", null, "sample; absent: with predict_with_generate true, as in "
      .. "LLaMA-Factory; in chat true if temperature, top_p or top_k is set, otherwise the most "
      .. "probable token is taken" },
    { "skip_special_tokens", "bool", true, "omit special tokens from generated_predictions.jsonl "
      .. "and from the output of chat; comparisons always omit them" },
    { "num_beams", "int", 1, "beam search", only = "answers are greedy or sampled" },
    { "eval_num_beams", "int", null, "beam search in evaluations: with predict_with_generate only "
      .. "1",
      least = 1 },
    { "generation_num_beams", "int", null, "another name of eval_num_beams", least = 1 },
  } },
}
