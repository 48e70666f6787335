// The small commands (help, version, preprocess, chat, sft), and names that are not commands.

#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CommandsTest : public Workplace {};

// Returns the text of the comment at the start of a script.
std::string HeadComment(const std::string& script) {
  std::istringstream text(ReadText("scripts/" + script + ".lua"));
  std::string comment;
  for (std::string line; std::getline(text, line) && line.rfind("--", 0) == 0;) {
    comment += line.substr(std::min(line.size(), line.find_first_not_of('-') + 1)) + "\n";
  }
  return comment;
}

TEST_F(CommandsTest, Help) {
  const CommandResult usage = Run({"help"});
  ASSERT_THAT(usage, Succeeds());
  for (const char* name : {"chat", "help", "preprocess", "probe", "sft", "train", "version"}) {
    EXPECT_THAT(usage.out, HasSubstr(std::string("\n  ") + name + " "));
    const CommandResult help = Run({"help", name});
    ASSERT_THAT(help, Succeeds());
    EXPECT_THAT(help.out, StartsWith(HeadComment(name))) << name;
  }
  std::istringstream lines(usage.out);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 120) << line;  // nothing is cut off or wraps
  size_t place = 0;  // in the order of use
  for (const char* name : {"train", "chat", "serve", "export", "repl", "sft", "env", "help"}) {
    const size_t next = usage.out.find(std::string("\n  ") + name + " ");
    EXPECT_TRUE(next != std::string::npos && next > place) << name;
    place = next;
  }
  EXPECT_EQ(Run({"--help"}).out, usage.out);
  EXPECT_THAT(Run({"serve"}), FailsWith(2, HasSubstr("usage: moonring serve MODEL")));
  const CommandResult nothing = Run({});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_EQ(nothing.out, usage.out);
}

// The supported keys of LLaMA-Factory, 360-LLaMA-Factory and Moonring are all listed.
TEST_F(CommandsTest, HelpTrainListsEveryKey) {
  const CommandResult help = Run({"help", "train"});
  ASSERT_THAT(help, Succeeds());
  for (const char* stage : {"pt", "sft", "rm", "dpo", "kto", "grpo", "rloo", "online_dpo"})
    EXPECT_THAT(help.out,
                ::testing::ContainsRegex("\nstage: " + std::string(stage) + " +[^\n]{20}"));
  std::set<std::string> listed;
  std::istringstream lines(help.out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, type;
    if (line.rfind("  ", 0) != 0 || !(words >> name >> type)) continue;
    EXPECT_TRUE(listed.insert(name).second) << name << " twice";
    EXPECT_THAT(type, ::testing::AnyOf("string", "int", "float", "bool", "list", "any")) << name;
  }
  for (const char* key : {"model_name_or_path",
                          "dataset",
                          "dataset_dir",
                          "template",
                          "cutoff_len",
                          "sequence_parallel_size",
                          "sequence_parallel_mode",
                          "stage",
                          "finetuning_type",
                          "per_device_train_batch_size",
                          "gradient_accumulation_steps",
                          "learning_rate",
                          "num_train_epochs",
                          "max_steps",
                          "lr_scheduler_type",
                          "warmup_ratio",
                          "warmup_steps",
                          "weight_decay",
                          "optim",
                          "max_grad_norm",
                          "bf16",
                          "pure_bf16",
                          "seed",
                          "logging_steps",
                          "output_dir",
                          "overwrite_output_dir",
                          "plot_loss",
                          "report_to",
                          "save_strategy",
                          "ddp_timeout",
                          "micro_batch_tokens",
                          "count",
                          "overlong",
                          "recompute",
                          "max_samples",
                          "train_on_prompt",
                          "mask_history",
                          "disable_shuffling",
                          "flash_attn",
                          "packing",
                          "deepspeed",
                          "zero_stage",
                          "zero_group",
                          "offload_optimizer",
                          "offload_dir"}) {
    EXPECT_TRUE(listed.contains(key)) << key;
  }
}

// --help works at any position in the command line.
TEST_F(CommandsTest, HelpOfACommand) {
  const std::string help = Run({"help", "train"}).out;
  EXPECT_THAT(help, HasSubstr("cutoff_len"));
  EXPECT_EQ(Run({"train", "--help"}).out, help);
  EXPECT_EQ(Run({"train", "config.yaml", "-h"}).out, help);
  EXPECT_EQ(Run({"-n", "2", "train", "--help"}).out, help);
  EXPECT_THAT(Run({"sft", "--help"}).out,
              EndsWith("\nKeys and their defaults: model = required, data = required, dir = "
                       "\"data\", template = \"default\", "
                       "out = \"runs/sft\", sp = 1, strategy = \"zigzag-ring\", batch = 16, epochs "
                       "= 3, lr = 5e-5, "
                       "cutoff = 2048, micro_tokens = 8192, save_steps = 500, val_size = 0, "
                       "resume = false \n"));
}

TEST_F(CommandsTest, HelpOfAKey) {
  EXPECT_EQ(Run({"help", "train", "cutoff_len"}).out,
            "cutoff_len: tokens of an example, prompt and response, at most\n"
            "  type      int\n"
            "  default   2048\n"
            "  bounds    at least 1\n"
            "  resumed   in a resumed run it must not change\n"
            "  section   Data\n");
  EXPECT_THAT(Run({"help", "train", "lora_dropout"}).out, HasSubstr("\n  bounds    0 to 1\n"));
  EXPECT_THAT(Run({"help", "train", "overlong"}).out,
              HasSubstr("\n  values    truncate, drop, error\n"));
  EXPECT_THAT(Run({"help", "train", "model_name_or_path"}).out, HasSubstr("\n  default   none\n"));
  EXPECT_THAT(Run({"help", "train", "fp8"}).out,
              HasSubstr("\n  accepted  only the default: use bf16\n"));
  EXPECT_THAT(Run({"help", "train", "vllm_maxlen"}).out,
              HasSubstr("\n  effect    none: there is one engine\n"));
  EXPECT_THAT(Run({"help", "train", "cp_size"}).out,
              StartsWith("sequence_parallel_size (also named cp_size): number of ranks"));
  EXPECT_THAT(Run({"help", "train", "learning_rte"}),
              FailsWith(2, HasSubstr("no key 'learning_rte' (did you mean 'learning_rate'?)")));
  EXPECT_THAT(Run({"help", "chat", "template"}),
              FailsWith(2, HasSubstr("moonring help train KEY: of a key")));
  EXPECT_THAT(Run({"help", "train", "a", "b"}), FailsWith(2, StartsWith("usage: moonring help ")));
}

// train enforces the limits that the help states for a key.
TEST_F(CommandsTest, TheBoundsOfKeysAreKept) {
  WriteModel("model");
  WriteConfig();
  EXPECT_THAT(Run({"train", "config.yaml", "save_total_limit=0"}),
              FailsWith(2, "save_total_limit: expected at least 1, got 0"));
  EXPECT_THAT(Run({"train", "config.yaml", "learning_rate=-1"}),
              FailsWith(2, "learning_rate: expected 0 or more, got -1"));
  EXPECT_THAT(Run({"train", "config.yaml", "lora_dropout=1.5"}),
              FailsWith(2, "lora_dropout: expected 0 to 1, got 1.5"));
}

TEST_F(CommandsTest, AListIsOfNames) {
  WriteModel("model");
  WriteConfig();
  EXPECT_THAT(Run({"train", "config.yaml", "dataset=[1, 2]"}),
              FailsWith(2, HasSubstr("no data set '1'")));
  EXPECT_THAT(Run({"train", "config.yaml", "adapter_name_or_path=[1, 2]", "finetuning_type=lora"}),
              FailsWith(2, "adapter_name_or_path: no folder '1'"));
  for (const char* value : {"[[docs]]", "[null]", "{docs: 1}"}) {
    EXPECT_THAT(Run({"train", "config.yaml", "dataset=" + std::string(value)}),
                FailsWith(2, HasSubstr("dataset: expected list, got '")));
  }
}

// A configuration whose model has no weights: inspect shows everything that it can without them.
TEST_F(CommandsTest, InspectAConfiguration) {
  WriteModel("model");
  const std::string whole = Run({"inspect", "model"}).out;
  std::filesystem::create_directory(Path("alone"));
  std::filesystem::copy(Path("model/config.json"), Path("alone/config.json"));
  const CommandResult alone = Run({"inspect", "alone/config.json"});
  ASSERT_THAT(alone, Succeeds());
  EXPECT_THAT(alone.out,
              AllOf(StartsWith("alone/config.json\nfamily       Llama"),
                    HasSubstr("\nweights      none are here: this is a configuration alone")));
  for (const char* part : {"\nshape ", "\ncontext ", "\nparameters ", "\nto train "}) {
    const size_t from = whole.find(part);
    ASSERT_NE(from, std::string::npos) << part;
    EXPECT_THAT(alone.out, HasSubstr(whole.substr(from, whole.find('\n', from + 1) - from)))
        << part;
  }
  EXPECT_THAT(Run({"inspect", "alone/none.json"}), FailsWith(2, HasSubstr("alone/none.json")));
}

TEST_F(CommandsTest, Version) {
  const CommandResult version = Run({"version"});
  ASSERT_THAT(version, Succeeds());
  EXPECT_THAT(version.out,
              ::testing::MatchesRegex("moonring [0-9.]+ \\(development build; (cpu|cuda); "
                                      "LibTorch 2\\.11\\.[0-9]+\\)\n"));
  EXPECT_EQ(Run({"--version"}).out, version.out);
  const json facts = json::parse(Run({"version", "--json"}).out);
  EXPECT_THAT(version.out, StartsWith("moonring " + facts["version"].get<std::string>() + " ("));
  EXPECT_EQ(facts["packed"], false);
  EXPECT_THAT(Run({"version", "-v"}), FailsWith(2, StartsWith("usage: moonring version")));
}

// env describes the machine, and shows no credential, whatever variable holds it.
TEST_F(CommandsTest, Env) {
  CommandOptions options = Options({"env"});
  options.environment["HF_TOKEN"] = "hf_credential";
  options.environment["MOONRING_TOKEN"] = "credential_of_ranks";
  options.environment["https_proxy"] = "http://me:credential@proxy:3128";
  options.environment["HF_ENDPOINT"] = "https://me:credential@hub.example/models";
  options.environment["NCCL_DEBUG"] = "WARN";
  options.environment["DATABASE_URL"] = "of_something_else";
  const CommandResult env = Command(options).Wait();
  ASSERT_THAT(env, Succeeds());
  EXPECT_THAT(env.out, StartsWith("```text\n" + Run({"version"}).out));
  EXPECT_THAT(env.out, EndsWith("\n```\n"));
  EXPECT_THAT(env.out, AllOf(HasSubstr("\nHF_TOKEN=(set; its value is not shown)\n"),
                             HasSubstr("\nMOONRING_TOKEN=(set; its value is not shown)\n"),
                             HasSubstr("\nhttps_proxy=(set; its value is not shown)\n"),
                             HasSubstr("\nHF_ENDPOINT=https://***@hub.example/models\n"),
                             HasSubstr("\nNCCL_DEBUG=WARN\n")));
  for (const char* hidden : {"credential", "DATABASE"})
    EXPECT_THAT(env.out, ::testing::Not(HasSubstr(hidden)));
  for (const char* row : {"system", "CPU", "cores", "memory", "GPUs", "LibTorch", "threads",
                          "LuaJIT", "Python", "Parquet", "libcurl", "sandbox"})
    EXPECT_THAT(env.out, ::testing::ContainsRegex("\n" + std::string(row) + " +[^ \n]"));
  EXPECT_THAT(env.out, ::testing::ContainsRegex("\nLibTorch +2\\.11\\.[0-9]+ in /"));
  EXPECT_THAT(Run({"--sandbox", "env"}), Succeeds());
  EXPECT_THAT(Run({"env", "all"}), FailsWith(2, StartsWith("usage: moonring env")));
}

TEST_F(CommandsTest, UnknownCommands) {
  EXPECT_THAT(Run({"trian"}),
              FailsWith(2, AllOf(HasSubstr("'trian' (did you mean 'train'?)"),
                                 HasSubstr("preprocess, probe, repl, report, serve, sft, train"))));
  EXPECT_THAT(Run({"help", "trian"}), FailsWith(2, HasSubstr("(did you mean 'train'?)")));
  EXPECT_THAT(Run({"script.lua"}), FailsWith(2, "no file 'script.lua'"));
  EXPECT_THAT(Run({"--devise", "cpu", "version"}),
              FailsWith(2, HasSubstr("(did you mean '--device'?)")));
  EXPECT_THAT(Run({"-n", "zero", "version"}),
              FailsWith(2, "-n: expected a number of ranks from 1, got 'zero'"));
  EXPECT_THAT(Run({"-n"}), FailsWith(2, "-n needs a value"));
  EXPECT_THAT(Run({"--device", "gpu", "version"}),
              FailsWith(2, HasSubstr("expected cpu or cuda, got 'gpu'")));
  for (const char* name : {"train", "preprocess", "probe", "chat"})
    EXPECT_THAT(Run({name}),
                FailsWith(2, StartsWith(std::string("usage: moonring ") + name + " ")));
  EXPECT_THAT(Run({"sft"}),
              FailsWith(2, StartsWith("data= and model= are missing; keys: batch, cutoff,")));
}

// The tokens equal LLaMA-Factory's: for one case of each kind (tests/data checks all of them), and
// for all cases with added tokens.
TEST_F(CommandsTest, Preprocess) {
  const std::set<std::string> wanted = {
      "own_smollm2_64", "own_chatml_16_prompt", "own_default_2048_last", "renamed", "two_sets",
      "long",           "max_samples",          "default_system"};
  json cases = ReadJson("tests/golden/preprocess/cases.json");
  const json added = ReadJson("tests/golden/preprocess/added.json");
  cases.insert(cases.end(), added.begin(), added.end());
  size_t compared = 0;
  for (const json& each : cases) {
    const std::string name = each.at("name");
    if (!wanted.contains(name) && name.rfind("added_", 0) != 0) continue;
    std::vector<std::string> words = {"preprocess", "model_name_or_path=builtin:smollm2",
                                      "out=rows.jsonl",
                                      "dataset_dir=" + Runfile("tests/golden/preprocess/data")};
    for (const auto& [key, value] : each.at("config").items())
      words.push_back(key + "=" + (value.is_string() ? value.get<std::string>() : value.dump()));
    const CommandResult result = Run(words);
    ASSERT_THAT(result, Succeeds());
    EXPECT_EQ(result.out,
              std::to_string(each.at("examples").get<int>()) + " examples in rows.jsonl\n");
    EXPECT_EQ(ReadText(Path("rows.jsonl")),
              ReadText("tests/golden/preprocess/" + each.at("file").get<std::string>()))
        << each.at("name");
    ++compared;
  }
  EXPECT_EQ(compared, wanted.size() + added.size());
}

TEST_F(CommandsTest, PreprocessTakesAConfigurationAndWritesToAPipe) {
  WriteModel("model");
  WriteConfig();
  ASSERT_THAT(Run({"preprocess", "config.yaml", "out=rows.jsonl"}), Succeeds());
  EXPECT_EQ(ReadJsonLines(Path("rows.jsonl")).size(), 10);
  EXPECT_FALSE(std::filesystem::exists(Path("out")));
  const CommandResult piped = Run({"preprocess", "config.yaml", "out=/dev/stdout"});
  ASSERT_THAT(piped, Succeeds());
  EXPECT_THAT(piped.out, StartsWith(ReadText(Path("rows.jsonl"))));
}

// preprocess reads only a model's tokenizer files; the weights and config.json may be missing.
TEST_F(CommandsTest, PreprocessNeedsOnlyATokenizer) {
  WriteModel("model");
  WriteConfig();
  ASSERT_THAT(Run({"preprocess", "config.yaml", "out=whole.jsonl"}), Succeeds());
  for (const char* gone : {"model.safetensors", "config.json"}) {
    ASSERT_TRUE(std::filesystem::remove(Path(std::string("model/") + gone)));
    ASSERT_THAT(Run({"preprocess", "config.yaml", "out=rows.jsonl"}), Succeeds()) << gone;
    EXPECT_EQ(ReadText(Path("rows.jsonl")), ReadText(Path("whole.jsonl"))) << gone;
  }
  std::filesystem::remove(Path("model/tokenizer.json"));
  EXPECT_THAT(Run({"preprocess", "config.yaml", "out=rows.jsonl"}),
              FailsWith(2, HasSubstr("model: no tokenizer.json")));
  EXPECT_THAT(Run({"preprocess", "config.yaml", "out=rows.jsonl", "model_name_or_path=nowhere"}),
              FailsWith(2, HasSubstr("model_name_or_path: no folder or file 'nowhere'")));
}

// If cutoff_len is so small that no target is left, the log warns once.
TEST_F(CommandsTest, ACutoffThatLeavesNothing) {
  WriteModel("model");
  WriteConfig();
  const auto log = [&](std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"train", "config.yaml", "max_steps=1", "overwrite_output_dir=true"});
    const CommandResult result = Run(words);
    EXPECT_THAT(result, Succeeds());
    return result.out + result.err;
  };
  const auto times = [](const std::string& text, const std::string& sought) {
    int count = 0;
    for (size_t at = text.find(sought); at != std::string::npos; at = text.find(sought, at + 1))
      ++count;
    return count;
  };
  const std::string short_ones = "cutoff_len leaves almost nothing to train on: ",
                    beyond = "is beyond the model's ";
  std::string text = log({"cutoff_len=200"});
  EXPECT_EQ(times(text, short_ones) + times(text, beyond), 0) << text;
  text = log({"cutoff_len=6"});
  EXPECT_EQ(times(text, short_ones), 1) << text;
  const int positions = ReadJson(Path("model/config.json")).at("max_position_embeddings");
  text = log({"cutoff_len=" + std::to_string(positions + 1)});
  EXPECT_EQ(times(text, "cutoff_len: " + std::to_string(positions + 1) + " is beyond the model's " +
                            std::to_string(positions) + " positions"),
            1)
      << text;
  text = log({"cutoff_len=" + std::to_string(positions + 1), "sequence_parallel_size=2",
              "rope_scaling=linear"});
  EXPECT_EQ(times(text, beyond), 0) << text;
}

TEST_F(CommandsTest, Chat) {
  WriteModel("model");
  CommandOptions options = Options({"chat", "model", "max_new_tokens=6"});
  options.input = "Hello\n\nAnd again?\nclear\nHello\nexit\nnever read\n";
  const CommandResult result = RunMoonring(options);
  ASSERT_THAT(result, Succeeds());
  EXPECT_EQ(result.err,
            "template: none is given and the model carries none: `empty` is taken, texts as they "
            "are\n");  // no prompt where stderr is no terminal
  // The first and the third answer, decoded greedily from the same conversation, are equal. They
  // may contain line feeds because the model is untrained.
  const size_t half = result.out.size() / 2;
  EXPECT_GT(half, 0);
  options.input = "Hello\n";
  const std::string once = RunMoonring(options).out;
  EXPECT_THAT(result.out, AllOf(StartsWith(once), ::testing::EndsWith(once)));
  EXPECT_GT(result.out.size(), 2 * once.size());
  options.arguments.push_back("max_new_tokns=3");
  EXPECT_THAT(RunMoonring(options), FailsWith(2, HasSubstr("(did you mean 'max_new_tokens'?)")));
  options.arguments.back() = "template=smolm2";
  EXPECT_THAT(RunMoonring(options), FailsWith(2, HasSubstr("(did you mean 'smollm2'?)")));
}

// With the option for it, chat shows the end-of-answer token and other special tokens; the
// conversation does not contain them.
TEST_F(CommandsTest, ChatShowsSpecialTokens) {
  WriteModel("model");
  const auto chat = [&](int seed, const std::string& word) {
    CommandOptions options =
        Options({"chat", "model", "template=chatml", "max_new_tokens=400", "temperature=1000",
                 "top_k=0", "top_p=1", "seed=" + std::to_string(seed), word});
    options.input = "Hello\n";
    return RunMoonring(options).out;
  };
  const auto has = [](const std::string& text) { return text.find("<|im_") != std::string::npos; };
  int shown = 0;
  for (int seed = 1; seed <= 2; ++seed) {
    EXPECT_FALSE(has(chat(seed, "skip_special_tokens=true")));
    shown += has(chat(seed, "skip_special_tokens=false")) ? 1 : 0;
  }
  EXPECT_GT(shown, 0);
}

// An adapter's config file records the base model; LLaMA-Factory's YAML for inference names both.
TEST_F(CommandsTest, ChatWithAnAdapter) {
  WriteModel("model");
  WriteConfig();
  ASSERT_THAT(Run({"train", "config.yaml", "finetuning_type=lora", "learning_rate=0.1",
                   "max_steps=2", "output_dir=adapter"}),
              Succeeds());
  const auto answer = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "chat");
    words.insert(words.end(), {"max_new_tokens=8"});
    CommandOptions options = Options(words);
    options.input = "Hello\n";
    const CommandResult result = RunMoonring(options);
    EXPECT_THAT(result, Succeeds());
    return result.out;
  };
  const std::string adapted = answer({"model", "adapter_name_or_path=adapter", "template=smollm2"});
  EXPECT_NE(adapted, answer({"model", "template=smollm2"}));
  EXPECT_EQ(answer({"adapter", "template=smollm2"}), adapted);
  Write("infer.yaml",
        "model_name_or_path: model\nadapter_name_or_path: adapter\ntemplate: "
        "smollm2\ninfer_backend: huggingface  # choices: [huggingface, vllm]\n"
        "infer_dtype: float32\ntrust_remote_code: true\n");
  EXPECT_EQ(answer({"infer.yaml"}), adapted);
  std::filesystem::rename(Path("model"), Path("moved"));
  EXPECT_THAT(
      Run({"chat", "adapter"}),
      FailsWith(2,
                AllOf(StartsWith("adapter/adapter_config.json: its base model 'model' is not here"),
                      HasSubstr("model_name_or_path=DIR"))));
  EXPECT_EQ(answer({"adapter", "model_name_or_path=moved", "template=smollm2"}), adapted);
  Write("empty.yaml", "template: smollm2\n");
  EXPECT_THAT(Run({"chat", "empty.yaml"}),
              FailsWith(2, HasSubstr("model_name_or_path is missing")));
}

// Without a template in the configuration, the model's own chat template is used: training splits
// it into parts as LLaMA-Factory does, and chat renders it as a whole.
TEST_F(CommandsTest, AModelsOwnTemplate) {
  WriteModel("model");
  WriteConfig();
  const std::vector<std::string> preprocess = {"preprocess", "config.yaml", "out=rows.jsonl",
                                               "template=null"};
  CommandResult result = Run(preprocess);
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err,
              StartsWith("template: none is given and the model carries none: `empty` is taken"));
  const std::string empty = ReadText(Path("rows.jsonl"));
  const std::string chatml =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% "
      "if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  Write("model/chat_template.jinja", chatml);
  result = Run(preprocess);
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err,
              StartsWith("template: none is given: taken from the model's chat_template\n"));
  const std::string own = ReadText(Path("rows.jsonl"));
  EXPECT_NE(own, empty);
  Write("chatml.lua",
        R"(return { user = "<|im_start|>user\n{{content}}<|im_end|>\n<|im_start|>assistant\n", )"
        R"(assistant = "{{content}}<|im_end|>\n",
    system = "<|im_start|>system\n{{content}}<|im_end|>\n" })");
  ASSERT_THAT(Run({"preprocess", "config.yaml", "out=rows.jsonl", "template=chatml.lua"}),
              Succeeds());
  EXPECT_EQ(ReadText(Path("rows.jsonl")), own);

  CommandOptions options = Options({"chat", "model", "max_new_tokens=4"});
  options.input = "Hello\n";
  const CommandResult chat = RunMoonring(options);
  ASSERT_THAT(chat, Succeeds());
  EXPECT_EQ(chat.err, "");

  Write("model/chat_template.jinja", "\n{{ raise_exception('Not today') }}");
  EXPECT_THAT(
      Run(preprocess),
      FailsWith(2, AllOf(HasSubstr("the model's chat_template cannot be used: "),
                         HasSubstr("chat_template.jinja:2: Not today; name one: template: NAME"))));
  EXPECT_THAT(RunMoonring(options), ::testing::Not(Succeeds()));
}

// A script computes the cost of attention for ranks that do not exist, without running anything.
// Ulysses sends (P-1)/P^2 (2N + 2Nk) elements, with N query and Nk key elements on P ranks.
TEST_F(CommandsTest, AScriptAsksWhatAttentionWouldCost) {
  Write("cost.lua", R"(
    local attention = require("moonring").attention
    local shape = { ranks = 4, lengths = { 4096 }, heads = 16, kv_heads = 4, head_dim = 64,
      dtype = "bf16" }
    for _, strategy in ipairs { "ulysses", "zigzag-ring", "usp" } do
      shape.strategy = strategy
      local cost = attention.cost(shape)
      print(strategy, #cost, cost.balance, cost[1].forward.bytes, cost[4].backward.bytes,
        cost[2].tokens, cost[1].peak_bytes > 0)
    end
    local usp = attention.resolve { strategy = "usp", ranks = 8, heads = 8, kv_heads = 4 }
    print(usp.words, usp.contexts, usp.head_ranks, usp.ownership, usp.keys, usp.window)
    local gather = attention.resolve { strategy = "llama3", ranks = 3 }
    print(gather.name, gather.contexts, gather.head_ranks, gather.keys)
    print(pcall(attention.cost, { strategy = "ulysses", ranks = 4, lengths = { 10 } }))
  )");
  const CommandResult result = Run({"cost.lua"});
  ASSERT_THAT(result, Succeeds());
  const int64_t n = 4096 * 16 * 64 * 2, nk = 4096 * 4 * 64 * 2;
  const std::string bytes = std::to_string(3 * (2 * n + 2 * nk) / 16);
  EXPECT_THAT(result.out, StartsWith("ulysses\t4\t1\t" + bytes + "\t" + bytes +
                                     "\t1024\ttrue\nzigzag-ring\t4\t1\t"));
  EXPECT_THAT(result.out,
              HasSubstr("\nusp of 2 contexts x 4 heads, head first\t2\t4\tzigzag\tring\t2\n"
                        "all-gather\t3\t1\tgather\nfalse\t"));
  EXPECT_THAT(result.out, HasSubstr("heads, kv_heads and head_dim: required, to count bytes"));
}

// `sft` is the script that users are meant to copy: the example in its comment runs on one rank and
// on two.
TEST_F(CommandsTest, Sft) {
  WriteModel("model");
  WriteConfig();
  const std::vector<std::string> flags = {"sft",      "model=model",      "data=rows",
                                          "dir=data", "template=smollm2", "batch=5",
                                          "epochs=2", "lr=1e-3",          "cutoff=200"};
  const auto run = [&](std::vector<std::string> options, std::vector<std::string> more) {
    options.insert(options.end(), flags.begin(), flags.end());
    options.insert(options.end(), more.begin(), more.end());
    const CommandResult result = Run(options);
    EXPECT_THAT(result, Succeeds());
    return result.out;
  };
  const std::string alone = run({}, {"out=one"}),
                    shared = run({"-n", "2"}, {"sp=2", "out=two", "strategy=ulysses"});
  EXPECT_THAT(alone, AllOf(StartsWith("step 1/4  loss "), HasSubstr("step 4/4  loss ")));
  std::istringstream one(alone), two(shared);
  std::string line_one, line_two, word;
  for (int step = 1; step <= 4; ++step) {
    std::getline(one, line_one);
    std::getline(two, line_two);
    double loss[2], norm[2];
    std::istringstream first(line_one), second(line_two);
    first >> word >> word >> word >> loss[0] >> word >> norm[0];
    second >> word >> word >> word >> loss[1] >> word >> norm[1];
    EXPECT_NEAR(loss[1], loss[0], 1e-5 * loss[0]) << line_one;  // printed with 6 decimals
    EXPECT_NEAR(norm[1], norm[0], 2e-4) << line_one;            // with 4
  }
  EXPECT_EQ(ReadSafetensors(Path("two/model.safetensors")).size(), TinyWeights().size());
  EXPECT_TRUE(std::filesystem::exists(Path("two/tokenizer.json")));

  EXPECT_THAT(Run({"sft", "model=model", "data=rows", "dat=3"}),
              FailsWith(2, HasSubstr("unknown key 'dat' (did you mean 'data'?)")));
  EXPECT_THAT(Run({"sft", "model=model", "data=rows", "sp=two"}),
              FailsWith(2, "sp: expected a number, got 'two'"));
  EXPECT_THAT(Run({"sft", "model=nowhere", "data=rows"}), FailsWith(2, HasSubstr("'nowhere'")));
}

// A copy of that script runs as a user's file.
TEST_F(CommandsTest, ACustomScript) {
  WriteModel("model");
  WriteConfig();
  Write("mine.lua", ReadText("scripts/sft.lua"));
  const CommandResult result = Run({"-n", "2", "mine.lua", "model=model", "data=rows", "sp=2",
                                    "batch=10", "epochs=1", "out=mine"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.out, StartsWith("step 1/1  loss "));
}

}  // namespace
}  // namespace moonring::testing
