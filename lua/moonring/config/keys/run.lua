--- Keys of a run: what it logs, saves, evaluates; of export and of answers. What a row says:
-- keys/init.lua.
local null = require("moonring.native.system").null

-- YAML 1.1 reads a plain `no` as false.
local NEVER = { ["false"] = "no", off = "no" }

return {
  { title = "Run", resume = "free", rows = {
    { "output_dir", "string", null, "where the model, the log and the plot go", machine = true },
    { "overwrite_output_dir", "bool", false, "begin anew in a folder that is not empty. Without it "
      .. "the run goes on from the newest checkpoint there, as if it said resume_from_checkpoint: "
      .. "true, and a folder without a checkpoint is refused" },
    { "do_train", "bool", false, "train; false: evaluate or answer the model as it is. Absent: "
      .. "true unless do_eval or do_predict is" },
    { "do_eval", "bool", false, "evaluate after the training (so it is wherever eval_strategy is "
      .. "not no) or, where nothing is trained, the model as it is: eval_results.json" },
    { "do_predict", "bool", false, "answer each prompt of eval_dataset (or of what val_size holds "
      .. "out) and compare it with the row's own answer, after the training or, where nothing is "
      .. "trained, by the model as it is: generated_predictions.jsonl and predict_results.json. "
      .. "Wants predict_with_generate", stages = { "sft" } },
    { "predict_with_generate", "bool", false, "evaluations answer each row's prompt and compare: "
      .. "eval_bleu-4, eval_rouge-1, eval_rouge-2, eval_rouge-l, and no loss. The keys under "
      .. "Generation say how", stages = { "sft" } },
    { "seed", "int", 42, "of the order of examples", least = 0, most = 2 ^ 32 - 1,
      resume = "refused" },
    { "data_seed", "int", null, "the same, where it differs from seed", least = 0,
      most = 2 ^ 32 - 1, resume = "refused" },
    { "full_determinism", "bool", false,
      "on a GPU: kernels that give the same bits each time. Attention's backward takes more time "
        .. "for "
      .. "it, and where a micro-batch has few documents and heads more memory, which plan counts. "
        .. "On "
      .. "the CPU runs repeat bit for bit anyway" },
    { "logging_steps", "float", 500, "steps between lines of the log; below 1: a part of all steps",
      above = 0 },
    { "logging_first_step", "bool", false, "log the first step too" },
    { "disable_tqdm", "bool", null, "no line a logging step on the terminal; trainer_log.jsonl has "
      .. "them all. The same as progress: off, where progress is auto" },
    { "progress", "string", "auto", "how the terminal shows steps. bar: a line that redraws "
      .. "itself; plain: a line a logging step, and one where nothing was said for half a minute; "
      .. "auto: bar on a terminal, else plain; json: a line of JSON a step on stdout; off: nothing "
      .. "of steps", choices = { "auto", "bar", "plain", "json", "off" } },
    { "peak_tflops", "float", null,
      "TFLOP/s of a device at the most, of which mfu and mfu_causal in the log are shares: the "
        .. "operations of full or partial training as torchtitan counts them, attention of each "
        .. "document by its own length, as if each token saw all of it and halved. Absent: what "
        .. "its maker says of a GPU that is known by name, in bf16; on a CPU the log has no mfu",
      least = 1e-6, machine = true },
    { "logging_dir", "string", null, "the folder that report_to writes in; absent: "
      .. "output_dir/runs/DATE_HOST. trainer_log.jsonl is in output_dir", of = "report_to" },
    { "logging_strategy", "string", "steps", "when the log has a line: each logging_steps, at the "
      .. "end of each epoch and of the run, or never", choices = { "steps", "epoch", "no" },
      spellings = NEVER },
    { "report_to", "list", "none", "where the log's numbers go besides trainer_log.jsonl: "
      .. "tensorboard (event files), jsonl (records.jsonl), command (report_command's program), "
      .. "several of them, all (the first two, and command where there is report_command), none. "
      .. "A logger of Transformers that is not built in (wandb, mlflow, swanlab, ...) is told "
      .. "nothing, which one line says", nullable = true },
    { "report_command", "any", null, "of report_to: command. A program and its arguments, a list "
      .. "or a line for the shell, which is told each line of the log as JSON on its stdin" },
    { "run_name", "string", null, "the run's name for report_to; absent: output_dir's own",
      of = "report_to" },
    { "plot_loss", "bool", false, "draw training_loss.png" },
    { "report_html", "bool", true, "keep up report.html in output_dir, a page of curves, memory, "
      .. "times, layouts, samples and configuration that needs no network: at each evaluation, "
      .. "where that takes no more than a hundredth of the run's time, and at the end" },
    { "memory_report", "bool", false, "tell after the first step and at the end what each byte is "
      .. "for at the peak: weights, gradients, optimizer, checkpoint inputs and so on, beside what "
      .. "the kernel counts; memory_report.json. The log then has peak_anonymous_bytes" },
    { "trace", "string", null, "steps (3-5, or 4) of which all ranks write what they do and when, "
      .. "into trace-3-5.json in output_dir: Perfetto opens it, and moonring explain says where "
      .. "the time went" },
    { "sample_prompt", "string", null, "a question that the model answers before and after the "
      .. "training" },
    { "save_strategy", "string", "steps", "when a checkpoint-N is written; best: after an "
      .. "evaluation that is the best so far, by metric_for_best_model",
      choices = { "no", "steps", "epoch", "best" }, spellings = NEVER },
    { "save_steps", "float", 500, "steps between checkpoints; below 1: a part of all steps. The "
      .. "last step has one too", of = { "save_strategy", "steps" } },
    { "save_total_limit", "int", null, "checkpoints kept; the best one is kept besides",
      least = 1 },
    { "save_only_model", "bool", false, "checkpoints hold the model alone: no run can go on from "
      .. "them" },
    { "save_safetensors", "bool", true, "the format", only = "safetensors alone" },
    { "save_on_each_node", "bool", false, "at the end the first rank of each machine writes the "
      .. "model, where output_dir is not the folder that rank 0 writes into. With save_strategy: "
      .. "no, since checkpoints want a folder that all ranks share" },
    { "eval_strategy", "string", "no", "when to evaluate", choices = { "no", "steps", "epoch" },
      spellings = NEVER },
    { "eval_steps", "float", null, "steps between evaluations; below 1: a part of all steps; "
      .. "absent: logging_steps", of = { "eval_strategy", "steps" } },
    { "eval_delay", "float", 0, "no evaluation before this step (eval_strategy: steps) or this "
      .. "epoch (epoch); eval_on_start's and the one after the training come all the same",
      least = 0, of = "eval_strategy" },
    { "eval_on_start", "bool", false, "evaluate before the first step" },
    { "per_device_eval_batch_size", "int", 8,
      "rows of an evaluation batch; eval_loss is the mean of the batches' means, by rows",
      least = 1 },
    { "load_best_model_at_end", "bool", false, "end with the best checkpoint; save_strategy and "
      .. "eval_strategy must agree, or save_strategy be best",
      of = "eval_strategy" },
    { "metric_for_best_model", "string", null, "which number of an evaluation says so; absent: "
      .. "loss" },
    { "greater_is_better", "bool", null, "absent: unless the metric ends in loss" },
    { "resume_from_checkpoint", "any", null, "go on from a checkpoint: true (the newest whole one "
      .. "in output_dir), auto (the same, and from the beginning where there is none), or its "
      .. "folder", spellings = { yes = "true", on = "true", no = "false", off = "false" },
      machine = true },
    { "ignore_data_skip", "bool", false, "go on at the data's beginning, and whatever has changed "
      .. "in the configuration; the steps count on, and end where they would" },
    { "ddp_timeout", "float", 1800,
      "seconds that a collective may take: by then a rank that lives and does not answer is "
      .. "given up. A dead one is noticed within seconds", least = 0, machine = true },
    { "max_restarts", "int", 0,
      "how often the ranks that this machine's launcher started are started again after one "
      .. "has failed, from the newest checkpoint of the run; torchrun has its own "
      .. "--max-restarts, which is honoured", least = 0, most = 1000, machine = true },
    { "use_cpu", "bool", false, "no GPU; the same as --device cpu", machine = true },
    { "include_num_input_tokens_seen", "string", "no", "num_input_tokens_seen in the log and in "
      .. "log_history, total_tokens and throughput in trainer_log.jsonl: tokens that the model has "
      .. "learnt from so far. There is no padding, so all (or true) counts what non_padding does; "
      .. "no (or false): trainer_state.json alone has them",
      choices = { "no", "all", "non_padding" },
      spellings = { ["true"] = "all", ["false"] = "no" } },
    { "include_effective_tokens_per_second", "bool", false, "effective_tokens_per_sec in "
      .. "train_results.json: tokens that a rank has learnt from in a second" },
    { "include_tokens_per_second", "bool", false, "train_tokens_per_second in train_results.json: "
      .. "those of all ranks; trainer_log.jsonl has the rate of each line anyway" },
  } },
  { title = "Export", resume = "free", rows = {
    { "export_dir", "string", null, "moonring export: the folder to write the merged model to, or "
      .. "the file, where it ends in .gguf" },
    { "export_gguf_type", "string", "auto", "of a .gguf file, as the --outtype of llama.cpp's "
      .. "converter; auto: as config.json's dtype",
      choices = { "auto", "f32", "f16", "bf16", "q8_0" } },
    { "export_size", "int", 5, "GB of a file at most; a .gguf file is always one", least = 1 },
    { "infer_dtype", "string", "auto", "of export and chat: the dtype of the weights; auto: as "
      .. "they are. bf16 and its like say it of training",
      choices = { "auto", "float32", "bfloat16", "float16" } },
    { "export_device", "string", "cpu", "where it is merged", ignored = "the CPU merges" },
    { "export_legacy_format", "bool", false, "pytorch_model.bin", only = "safetensors alone" },
  } },
  { title = "Generation", resume = "free", rows = {
    { "max_new_tokens", "int", 1024, "tokens of an answer at most", least = 0 },
    { "temperature", "float", 0.95, "of sampling", least = 0 },
    { "top_p", "float", 0.7, "nucleus", above = 0, most = 1 },
    { "top_k", "int", 50, "tokens considered; 0: all", least = 0 },
    { "repetition_penalty", "float", 1.0, "of tokens already there", above = 0 },
    { "do_sample", "bool", null, "sample; absent: with predict_with_generate yes, as "
      .. "LLaMA-Factory; in chat where temperature, top_p or top_k is given, else the likeliest "
      .. "token" },
    { "skip_special_tokens", "bool", true, "leave special tokens out of "
      .. "generated_predictions.jsonl and of what chat shows; what is compared never has any" },
    { "num_beams", "int", 1, "beam search", only = "an answer is greedy or drawn" },
    { "eval_num_beams", "int", null, "the same of evaluations: with predict_with_generate 1 alone",
      least = 1 },
    { "generation_num_beams", "int", null, "another name of eval_num_beams", least = 1 },
  } },
}
