--- Keys of experiment trackers. Fields of a row: keys/init.lua.
local null = require("moonring.native.system").null

local SWANLAB = { "report_to", "swanlab" }

return {
  { title = "Trackers", resume = "free", rows = {
    { "report_to", "list", "none", "where metrics are written in addition to trainer_log.jsonl: "
      .. "tensorboard (event files), jsonl (records.jsonl), wandb, mlflow, swanlab (by their "
      .. "Python packages), command (report_command's program), a list of these, all (the first "
      .. "two, and command if report_command is set), or none. Other trackers of Transformers "
      .. "(comet_ml, clearml, ...) are skipped with a message", nullable = true },
    { "report_command", "any", null, "report_to: command: a program with its arguments, as a list "
      .. "or a shell command line, that receives each line of the log as JSON on stdin" },
    { "run_name", "string", null, "the run's name for report_to; absent: output_dir's own",
      of = "report_to" },
    { "logging_dir", "string", null, "the folder for report_to; absent: output_dir/runs/DATE_HOST. "
      .. "trainer_log.jsonl is in output_dir", of = "report_to" },
    { "use_swanlab", "bool", false, "the same as swanlab in report_to, in addition to the others" },
    { "swanlab_project", "string", "llamafactory", "its project; absent or llamafactory: "
      .. "SWANLAB_PROJ_NAME or SWANLAB_PROJECT, if one is set", of = SWANLAB },
    { "swanlab_workspace", "string", null, "its workspace", of = SWANLAB },
    { "swanlab_run_name", "string", null, "the run's name there; absent: run_name", of = SWANLAB },
    { "swanlab_mode", "string", "cloud", "where its files go; absent or cloud: "
      .. "SWANLAB_MODE, if it is set",
      choices = { "cloud", "local", "online", "offline", "disabled" }, of = SWANLAB },
    { "swanlab_api_key", "string", null, "its API key; absent: SWANLAB_API_KEY, or the one that "
      .. "`swanlab login` keeps", secret = true, of = SWANLAB },
    { "swanlab_logdir", "string", null, "the folder of its files; absent: SWANLAB_LOG_DIR or "
      .. "swanlog", of = SWANLAB },
    { "swanlab_lark_webhook_url", "string", null, "a webhook of Lark that gets a message at the "
      .. "run's end", secret = true, of = SWANLAB },
    { "swanlab_lark_secret", "string", null, "the secret of that webhook", secret = true,
      of = SWANLAB },
  } },
}
