// Moonring embedded in this process, used only through its C API.

#include "lua/embed.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <ATen/dlpack.h>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The messages of a runtime.
struct Told {
  std::vector<std::string> output, notes, warnings;
  std::vector<json> progress;
  std::function<void(const json&)> on_progress;
};

void TakeLine(void* told, moonring_log_kind kind, const char* line) {
  auto* all = static_cast<Told*>(told);
  (kind == MOONRING_LOG_OUTPUT ? all->output
   : kind == MOONRING_LOG_NOTE ? all->notes
                               : all->warnings)
      .push_back(line);
}

void TakeProgress(void* told, const char* text) {
  auto* all = static_cast<Told*>(told);
  all->progress.push_back(json::parse(text));
  if (all->on_progress) all->on_progress(all->progress.back());
}

// A runtime (one embedded Moonring) with its options and messages, sandboxed to `root` unless that
// is "".
class Runtime {
 public:
  explicit Runtime(const std::string& root,
                   const std::function<void(moonring_options&)>& change = nullptr) {
    const char* roots[] = {root.c_str()};
    moonring_options options = {};
    options.size = sizeof(options);
    if (root.empty()) {
      options.unconfined = 1;
    } else {
      options.roots = roots, options.root_count = 1;
    }
    options.device = "cpu";
    options.log = &TakeLine, options.progress = &TakeProgress, options.context = &told;
    if (change) change(options);
    char why[512];
    EXPECT_EQ(moonring_create(&options, &runtime, why, sizeof(why)), MOONRING_OK) << why;
  }
  ~Runtime() { moonring_destroy(runtime); }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  moonring_code Script(const std::string& text) {
    return moonring_run_string(runtime, text.c_str(), "own.lua", 0, nullptr);
  }
  moonring_code Command(const char* name, const std::vector<std::string>& words) {
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    return moonring_run_command(runtime, name, static_cast<int>(argv.size()), argv.data());
  }
  std::string error() const { return moonring_last_error(runtime); }

  moonring_runtime* runtime = nullptr;
  Told told;
};

class Embed : public Workplace {
 protected:
  // Paths are absolute, because an embedded runtime does not change the working directory.
  void WriteConfig(const std::string& more = "") const {
    Workplace::WriteConfig("model_name_or_path: " + Path("model") + "\ndataset_dir: " +
                           Path("data") + "\noutput_dir: " + Path("out") + "\n" + more);
  }
};

// Captures what the process writes to a file descriptor during the lifetime of the object.
class Captured {
 public:
  explicit Captured(int descriptor)
      : descriptor_(descriptor),
        path_(::testing::TempDir() + "/captured-" + std::to_string(descriptor)) {
    std::fflush(nullptr);
    before_ = dup(descriptor);
    const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(file, descriptor);
    close(file);
  }
  ~Captured() { End(); }
  std::string End() {
    if (before_ < 0) return "";
    std::fflush(nullptr);
    dup2(before_, descriptor_);
    close(before_);
    before_ = -1;
    return ReadText(path_);
  }

 private:
  const int descriptor_;
  const std::string path_;
  int before_;
};

// The library
// -------------------------------------------------------------------------------------------------

TEST(EmbedLibrary, ShowsItsOwnNamesAlone) {
  FILE* pipe = popen("nm -D --defined-only lua/libmoonring.so", "r");
  ASSERT_NE(pipe, nullptr);
  char line[4096];
  int names = 0;
  while (std::fgets(line, sizeof(line), pipe) != nullptr) {
    const std::string text(line);
    const std::string name = text.substr(text.rfind(' ') + 1);
    const char kind = text[text.rfind(' ') - 1];
    if (kind >= 'a' && kind <= 'z' && kind != 'u') continue;  // a local symbol
    if (kind == 'W' && (name.rfind("_ZNSt7__cxx1112basic_string", 0) == 0 ||
                        name.rfind("_ZNKSt7__cxx1112basic_string", 0) == 0))
      continue;  // of libstdc++; gold exports them always
    EXPECT_TRUE(name.rfind("moonring_", 0) == 0 || name.rfind("MOONRING_0", 0) == 0) << text;
    names += name.rfind("moonring_", 0) == 0;
  }
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(names, 13);
}

TEST(EmbedLibrary, RefusesWrongOptions) {
  moonring_runtime* runtime = nullptr;
  char why[256];
  const auto create = [&](const std::function<void(moonring_options&)>& change) {
    moonring_options options = {};
    options.size = sizeof(options);
    change(options);
    const moonring_code code = moonring_create(&options, &runtime, why, sizeof(why));
    EXPECT_EQ(runtime, nullptr);
    return code;
  };
  EXPECT_EQ(create([](moonring_options& o) { o.size = 3; }), MOONRING_INVALID_ARGUMENT);
  EXPECT_EQ(create([](moonring_options& o) { o.memory = -1; }), MOONRING_INVALID_ARGUMENT);
  EXPECT_EQ(create([](moonring_options& o) { o.assets = "/nowhere"; }), MOONRING_NOT_FOUND);
  EXPECT_EQ(create([](moonring_options& o) { o.device = "tpu"; }), MOONRING_INVALID_ARGUMENT);
  EXPECT_EQ(create([](moonring_options& o) { o.root_count = 1; }), MOONRING_INVALID_ARGUMENT);
  const char* nowhere[] = {"/nowhere"};
  EXPECT_EQ(create([&](moonring_options& o) { o.roots = nowhere, o.root_count = 1; }),
            MOONRING_INVALID_ARGUMENT);
  EXPECT_STREQ(why, "INVALID_ARGUMENT: --sandbox-root: no folder '/nowhere'");
  EXPECT_EQ(moonring_create(nullptr, nullptr, nullptr, 0), MOONRING_INVALID_ARGUMENT);
  EXPECT_EQ(moonring_run_string(nullptr, "", "", 0, nullptr), MOONRING_INVALID_ARGUMENT);
  moonring_cancel(nullptr, 0);
  moonring_destroy(nullptr);
  moonring_free(nullptr);
  EXPECT_STREQ(moonring_version(), MOONRING_VERSION);
}

// Scripts
// -------------------------------------------------------------------------------------------------

TEST_F(Embed, RunsTextAndFiles) {
  Runtime runtime(folder_);
  EXPECT_EQ(runtime.Script("print('hello', 1, nil) print 'two\\nlines'"), MOONRING_OK);
  EXPECT_THAT(runtime.told.output, ElementsAre("hello\t1\tnil", "two", "lines"));
  const char* words[] = {"a", "b=1"};
  EXPECT_EQ(moonring_run_file(runtime.runtime,
                              Write("own.lua", "print(arg[1], arg[2], ...)").c_str(), 2, words),
            MOONRING_OK);
  EXPECT_EQ(runtime.told.output.back(), "a\tb=1\ta\tb=1");
  EXPECT_EQ(moonring_run_file(runtime.runtime, Path("none.lua").c_str(), 0, nullptr),
            MOONRING_NOT_FOUND);
  EXPECT_THAT(runtime.error(), HasSubstr("none.lua"));
  EXPECT_EQ(moonring_run_file(runtime.runtime, folder_.c_str(), 0, nullptr),
            MOONRING_INVALID_ARGUMENT);
  EXPECT_EQ(moonring_run_file(runtime.runtime, nullptr, 0, nullptr), MOONRING_INVALID_ARGUMENT);
  EXPECT_EQ(moonring_run_string(runtime.runtime, "", "", 1, nullptr), MOONRING_INVALID_ARGUMENT);
  EXPECT_EQ(runtime.Script(""), MOONRING_OK);
  EXPECT_EQ(runtime.error(), "");
}

TEST_F(Embed, ReportsFailuresByCodeAndMessage) {
  Runtime runtime(folder_);
  EXPECT_EQ(runtime.Script("this is no Lua"), MOONRING_FAILED);
  EXPECT_THAT(runtime.error(), HasSubstr("own.lua:1:"));
  EXPECT_EQ(runtime.Script("error 'oh'"), MOONRING_FAILED);
  EXPECT_EQ(runtime.error(), "own.lua:1: oh");
  EXPECT_EQ(runtime.Script("require 'moonring.base.errors'.fail 'oh'"), MOONRING_INVALID_ARGUMENT);
  EXPECT_EQ(runtime.Script("io.open 'x'"), MOONRING_PERMISSION_DENIED);
  EXPECT_EQ(runtime.Script("require 'moonring'.model.open '/etc/passwd'"),
            MOONRING_PERMISSION_DENIED);
  EXPECT_THAT(runtime.error(), HasSubstr("/etc/passwd is outside of the roots (" + folder_));
  EXPECT_EQ(runtime.Script("require 'moonring'.model.open 'none'"),
            MOONRING_PERMISSION_DENIED);  // in the current folder
  EXPECT_EQ(runtime.Script("require 'moonring'.model.open '" + Path("none") + "'"),
            MOONRING_NOT_FOUND);
  EXPECT_EQ(runtime.Command("trian", {}), MOONRING_NOT_FOUND);
  EXPECT_THAT(runtime.error(), HasSubstr("did you mean 'train'?"));
  EXPECT_EQ(
      runtime.Script("error(setmetatable({}, { __tostring = function() error 'again' end }))"),
      MOONRING_FAILED);
  EXPECT_EQ(runtime.Script("local function f() return 1 + f() end f()"), MOONRING_FAILED);
  EXPECT_THAT(runtime.error(), HasSubstr("stack overflow"));
}

// The caller gets a one-line message. The log gets the stack trace, with the script's functions
// only.
TEST_F(Embed, ReportsWhereAnErrorCameFrom) {
  Runtime runtime(folder_);
  EXPECT_EQ(runtime.Script("local function f()\n  error { message = 'oh' }\nend\nf()"),
            MOONRING_FAILED);
  EXPECT_EQ(runtime.error(), "oh");
  EXPECT_THAT(runtime.told.notes,
              ElementsAre("  own.lua:2: in function 'f'", "  own.lua:4: in main chunk"));
}

TEST_F(Embed, CallsWhatAScriptDefined) {
  Runtime runtime(folder_);
  ASSERT_EQ(runtime.Script("function add(t) return { sum = t.a + t.b, list = { 1, 'x', true } } "
                           "end function nothing() end function wrong() return print end n = 0 "
                           "function count() n = n + 1 return n end"),
            MOONRING_OK);
  char* result = nullptr;
  EXPECT_EQ(moonring_call(runtime.runtime, "add", R"({"a": 1, "b": 2.5})", &result), MOONRING_OK);
  EXPECT_EQ(json::parse(result), json({{"sum", 3.5}, {"list", {1, "x", true}}}));
  moonring_free(result);
  EXPECT_EQ(moonring_call(runtime.runtime, "nothing", nullptr, &result), MOONRING_OK);
  EXPECT_STREQ(result, "null");
  moonring_free(result);
  EXPECT_EQ(moonring_call(runtime.runtime, "count", nullptr, nullptr), MOONRING_OK);
  EXPECT_EQ(moonring_call(runtime.runtime, "count", nullptr, &result), MOONRING_OK);
  EXPECT_STREQ(result, "2");
  moonring_free(result);
  EXPECT_EQ(moonring_call(runtime.runtime, "none", nullptr, &result), MOONRING_NOT_FOUND);
  EXPECT_EQ(result, nullptr);
  EXPECT_EQ(moonring_call(runtime.runtime, "add", "{oh", &result), MOONRING_INVALID_ARGUMENT);
  EXPECT_EQ(moonring_call(runtime.runtime, "wrong", nullptr, &result), MOONRING_INVALID_ARGUMENT);
  EXPECT_EQ(moonring_call(runtime.runtime, "add", "1", &result), MOONRING_FAILED);
  EXPECT_EQ(moonring_call(runtime.runtime, nullptr, nullptr, &result), MOONRING_INVALID_ARGUMENT);
}

// A tensor in this test's memory, which counts the calls of its deleter.
struct OwnTensor {
  explicit OwnTensor(int* deleted) : deleted(deleted) {
    managed.dl_tensor = {.data = values,
                         .device = {.device_type = kDLCPU, .device_id = 0},
                         .ndim = 1,
                         .dtype = {.code = kDLFloat, .bits = 64, .lanes = 1},
                         .shape = shape,
                         .strides = nullptr,
                         .byte_offset = sizeof(double)};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) {
      ++*static_cast<OwnTensor*>(self->manager_ctx)->deleted;
    };
  }
  double values[4] = {-1, 1, 2, 3};
  int64_t shape[1] = {3};
  int* deleted;
  DLManagedTensor managed = {};
};

TEST_F(Embed, CallsWithTensorsCopyNone) {
  int deleted = 0;
  OwnTensor a(&deleted), b(&deleted), wrong(&deleted);
  DLManagedTensor* const inputs[] = {&a.managed, &b.managed};
  DLManagedTensor** outputs = nullptr;
  size_t count = 0;
  char* result = nullptr;
  {
    Runtime runtime(folder_);
    ASSERT_EQ(
        runtime.Script("function f(v, a, b) a:add_(v) return { a:sum():item() }, a, b * 2 end "
                       "function g(v, a) return nil, 1 end function h(v) return v == nil end"),
        MOONRING_OK);
    ASSERT_EQ(
        moonring_call_tensors(runtime.runtime, "f", "10", inputs, 2, &result, &outputs, &count),
        MOONRING_OK)
        << runtime.error();
    EXPECT_STREQ(result, "[36]");
    moonring_free(result);
    ASSERT_EQ(count, 2u);
    EXPECT_EQ(outputs[0]->dl_tensor.data, a.values + 1);  // without the byte offset
    EXPECT_THAT(a.values, ElementsAre(-1, 11, 12, 13));
    EXPECT_EQ(static_cast<double*>(outputs[1]->dl_tensor.data)[2], 6);
    EXPECT_EQ(outputs[1]->dl_tensor.shape[0], 3);
    // An input is taken over whatever the call returns.
    EXPECT_EQ(deleted, 1);  // b; the first output keeps a
    DLManagedTensor* const others[] = {&wrong.managed};
    EXPECT_EQ(moonring_call_tensors(nullptr, "f", nullptr, others, 1, nullptr, nullptr, nullptr),
              MOONRING_INVALID_ARGUMENT);
    EXPECT_EQ(deleted, 2);
    wrong.managed.dl_tensor.dtype.bits = 24;
    EXPECT_NE(
        moonring_call_tensors(runtime.runtime, "f", nullptr, others, 1, nullptr, nullptr, nullptr),
        MOONRING_OK);
    EXPECT_EQ(deleted, 3);
    wrong.managed.dl_tensor.dtype.bits = 64;
    EXPECT_EQ(
        moonring_call_tensors(runtime.runtime, "g", nullptr, others, 1, &result, nullptr, nullptr),
        MOONRING_INVALID_ARGUMENT);
    EXPECT_THAT(runtime.error(), HasSubstr("result 2 of the function: expected a tensor"));
    EXPECT_EQ(result, nullptr);
    EXPECT_EQ(
        moonring_call_tensors(runtime.runtime, "h", nullptr, nullptr, 0, &result, nullptr, nullptr),
        MOONRING_OK);
    EXPECT_STREQ(result, "true");
    moonring_free(result);
  }
  EXPECT_EQ(deleted, 4);  // b, and `wrong` three times
  outputs[0]->deleter(outputs[0]);
  EXPECT_EQ(deleted, 5);
  EXPECT_EQ(static_cast<double*>(outputs[1]->dl_tensor.data)[0], 2);  // outlives the runtime
  outputs[1]->deleter(outputs[1]);
  moonring_free(outputs);
}

TEST_F(Embed, MayLeaveAScriptAllOfLua) {
  Runtime runtime("");
  EXPECT_EQ(runtime.Script("assert(io.open('/etc/passwd')):close() io.write('a', 1, '\\n') "
                           "io.stderr:write 'note\\n'"),
            MOONRING_OK)
      << runtime.error();
  EXPECT_THAT(runtime.told.output, ElementsAre("a1"));
  EXPECT_THAT(runtime.told.notes, ElementsAre("note"));
  EXPECT_EQ(runtime.Script("os.exit(1)"), MOONRING_PERMISSION_DENIED);
  EXPECT_EQ(runtime.Script("require 'moonring'.launch(2)"), MOONRING_FAILED);
  EXPECT_THAT(runtime.error(), HasSubstr("an embedded runtime is one"));
}

TEST_F(Embed, HasLimits) {
  Runtime loops(folder_, [](moonring_options& options) { options.instructions = 1'000'000; });
  EXPECT_EQ(loops.Script("while true do pcall(function() while true do end end) end"),
            MOONRING_EXHAUSTED);
  EXPECT_EQ(loops.Script("return 1"), MOONRING_OK);
  char why[256];
  moonring_runtime* none = nullptr;
  moonring_options options = {};
  options.size = sizeof(options);
  options.memory = 64 << 20;
  EXPECT_EQ(moonring_create(&options, &none, why, sizeof(why)), MOONRING_FAILED);
  EXPECT_THAT(why, HasSubstr("moonring_count_memory must come first"));
}

TEST_F(Embed, ACallbackMayNotCallTheRuntime) {
  Runtime runtime(folder_);
  moonring_code inner = MOONRING_OK;
  runtime.told.on_progress = [&](const json&) { inner = runtime.Script("x = 1"); };
  EXPECT_EQ(runtime.Script("require 'moonring'.system.tell_progress { mine = { 1, 0/0 } }"),
            MOONRING_OK)
      << runtime.error();
  EXPECT_EQ(inner, MOONRING_INVALID_ARGUMENT);
  EXPECT_EQ(runtime.told.progress[0]["mine"][0], 1);
}

TEST_F(Embed, IsCancelledFromAnotherThread) {
  Runtime runtime(folder_);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    moonring_cancel(runtime.runtime, 0);
  });
  EXPECT_EQ(runtime.Script("while true do pcall(function() while true do end end) end"),
            MOONRING_CANCELLED);
  other.join();
  EXPECT_EQ(runtime.Script("return 1"), MOONRING_CANCELLED);  // still cancelled
  EXPECT_EQ(runtime.error(), "CANCELLED: the run was cancelled");
}

TEST_F(Embed, AnInterruptEndsOneCall) {
  Runtime runtime(folder_);
  moonring_interrupt(runtime.runtime);  // no call is running
  moonring_interrupt(nullptr);
  EXPECT_EQ(runtime.Script("return 1"), MOONRING_OK);
  std::atomic<bool> over = false;
  std::thread other([&] {
    while (!over) moonring_interrupt(runtime.runtime);
  });
  EXPECT_EQ(runtime.Script("while true do pcall(function() while true do end end) end"),
            MOONRING_CANCELLED);
  over = true;
  other.join();
  EXPECT_EQ(runtime.Script("return 1"), MOONRING_OK);
  // Cancelling during an interrupted call is for good.
  runtime.told.on_progress = [&](const json&) {
    moonring_interrupt(runtime.runtime);
    moonring_cancel(runtime.runtime, 1);
  };
  EXPECT_EQ(runtime.Script("require 'moonring'.system.tell_progress {} while true do end"),
            MOONRING_CANCELLED);
  EXPECT_EQ(runtime.Script("return 1"), MOONRING_CANCELLED);
}

// Training
// -------------------------------------------------------------------------------------------------

constexpr char kSteps[] =
    "max_steps: 4\nlogging_steps: 1\nsave_steps: 2\nval_size: 2\neval_strategy: steps\neval_steps: "
    "2\n";

TEST_F(Embed, TrainsAndLeavesTheProcessAlone) {
  WriteModel("model");
  WriteConfig(kSteps);
  const fs::path here = fs::current_path();
  struct sigaction before[32], after[32];
  for (int signal = 1; signal < 32; ++signal) sigaction(signal, nullptr, &before[signal]);
  Runtime runtime(folder_);
  Captured out(1), err(2);
  const moonring_code code = runtime.Command("train", {Path("config.yaml")});
  const std::string streams = out.End() + err.End();
  EXPECT_EQ(code, MOONRING_OK) << runtime.error();
  EXPECT_EQ(streams, "");
  for (int signal = 1; signal < 32; ++signal) {
    sigaction(signal, nullptr, &after[signal]);
    EXPECT_EQ(before[signal].sa_handler, after[signal].sa_handler) << signal;
  }
  EXPECT_EQ(fs::current_path(), here);
  EXPECT_TRUE(fs::exists(Path("out/model.safetensors")) ||
              fs::exists(Path("out/adapter_model.safetensors")));
  std::vector<int> steps, evaluations;
  for (const json& told : runtime.told.progress)
    (told["event"] == "step" ? steps : evaluations).push_back(told["step"]);
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(evaluations, Contains(2));
  EXPECT_EQ(runtime.told.progress[0]["total_steps"], 4);
  EXPECT_GT(runtime.told.progress[0]["loss"].get<double>(), 0);
  EXPECT_THAT(runtime.told.notes, Contains(HasSubstr("4 steps of ")));
}

TEST_F(Embed, IsOneRank) {
  WriteModel("model");
  WriteConfig();
  Runtime runtime(folder_);
  EXPECT_EQ(runtime.Command("train", {Path("config.yaml"), "sequence_parallel_size=2"}),
            MOONRING_FAILED);
  EXPECT_THAT(runtime.error(), HasSubstr("2 ranks are requested, and an embedded runtime is one"));
}

TEST_F(Embed, AJobStaysInItsRoot) {
  WriteModel("model");
  WriteConfig();
  Runtime runtime(folder_);
  for (const char* word : {"output_dir=/tmp/moonring-out", "model_name_or_path=/etc",
                           "dataset_dir=/etc", "resume_from_checkpoint=/etc", "template=/etc/x.lua",
                           "tokenized_path=/tmp/moonring-tokenized", "adapter_name_or_path=/etc"}) {
    const bool lora = std::string(word).rfind("adapter", 0) == 0;
    EXPECT_EQ(runtime.Command("train", {Path("config.yaml"), word,
                                        lora ? "finetuning_type=lora" : "finetuning_type=full"}),
              MOONRING_PERMISSION_DENIED)
        << word << ": " << runtime.error();
    EXPECT_THAT(runtime.error(), HasSubstr("is outside of the roots")) << word;
  }
  EXPECT_FALSE(fs::exists("/tmp/moonring-out"));
}

// The arguments after config.yaml, in which the four runs differ.
std::vector<std::string> RunOf(int i, const std::string& output) {
  return {"seed=" + std::to_string(i), "data_seed=" + std::to_string(i), "output_dir=" + output};
}

TEST_F(Embed, FourAtOnceAreEachAsIfAlone) {
  WriteModel("model");
  WriteConfig("max_steps: 6\nfinetuning_type: full\nneftune_noise_alpha: 5\nlogging_steps: 1\n");
  for (int i = 0; i < 4; ++i) {
    std::vector<std::string> words = {"train", "config.yaml"};
    for (const std::string& word : RunOf(i, "alone" + std::to_string(i))) words.push_back(word);
    ASSERT_THAT(Run(words), Succeeds());
  }
  std::vector<std::thread> threads;
  std::atomic<int> done = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      Runtime runtime(folder_);
      std::vector<std::string> words = RunOf(i, Path("together" + std::to_string(i)));
      words.insert(words.begin(), Path("config.yaml"));
      const moonring_code code = runtime.Command("train", words);
      EXPECT_EQ(code, MOONRING_OK) << runtime.error();
      done += code == MOONRING_OK;
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(done, 4);
  for (int i = 0; i < 4; ++i) {
    const std::string alone = "alone" + std::to_string(i),
                      together = "together" + std::to_string(i);
    EXPECT_EQ(ReadText(Path(alone + "/model.safetensors")),
              ReadText(Path(together + "/model.safetensors")))
        << i;
    const std::vector<json> a = ReadJsonLines(Path(alone + "/trainer_log.jsonl")),
                            b = ReadJsonLines(Path(together + "/trainer_log.jsonl"));
    ASSERT_EQ(a.size(), b.size());
    for (size_t line = 0; line < a.size(); ++line)
      EXPECT_EQ(a[line].value("loss", -1.0), b[line].value("loss", -1.0)) << i << " " << line;
    EXPECT_NE(ReadText(Path(alone + "/model.safetensors")),
              ReadText(Path("alone" + std::to_string((i + 1) % 4) + "/model.safetensors")));
  }
}

TEST_F(Embed, ACancelledRunEndsAndLeavesNoHalfCheckpoint) {
  WriteModel("model");
  WriteConfig("max_steps: 100000\nlogging_steps: 1\nsave_steps: 3\nsave_total_limit: 2\n");
  Runtime runtime(folder_);
  runtime.told.on_progress = [&](const json& told) {
    if (told["step"] == 5) moonring_cancel(runtime.runtime, 0);
  };
  EXPECT_EQ(runtime.Command("train", {Path("config.yaml")}), MOONRING_CANCELLED) << runtime.error();
  EXPECT_EQ(runtime.told.progress.size(), 5u);
  for (const auto& entry : fs::directory_iterator(Path("out"))) {
    const std::string name = entry.path().filename();
    if (name.rfind("checkpoint-", 0) != 0 || name.find(".partial") != std::string::npos) continue;
    EXPECT_TRUE(fs::exists(entry.path() / "manifest.json")) << name;
  }
}

TEST_F(Embed, ARunCancelledWithASaveCanResume) {
  WriteModel("model");
  WriteConfig("max_steps: 8\nlogging_steps: 1\nsave_steps: 1000\n");
  {
    Runtime runtime(folder_);
    runtime.told.on_progress = [&](const json& told) {
      if (told["step"] == 3) moonring_cancel(runtime.runtime, 1);
    };
    EXPECT_EQ(runtime.Command("train", {Path("config.yaml")}), MOONRING_CANCELLED)
        << runtime.error();
    EXPECT_TRUE(fs::exists(Path("out/checkpoint-3/manifest.json")));
  }
  Runtime runtime(folder_);
  EXPECT_EQ(runtime.Command("train", {Path("config.yaml"), "resume_from_checkpoint=true"}),
            MOONRING_OK)
      << runtime.error();
  EXPECT_EQ(runtime.told.progress[0]["step"], 4);
}

// Programs
// -------------------------------------------------------------------------------------------------

TEST_F(Embed, TheCProgramFineTunes) {
  WriteModel("model");
  WriteConfig(kSteps);
  const auto run = [&](const std::string& words, int& code) {
    FILE* pipe = popen(("cd " + folder_ + " && exec " + Runfile("lua/examples/fine_tune") +
                        " . config.yaml " + words + " 2>&1")
                           .c_str(),
                       "r");
    std::string text;
    char buffer[4096];
    for (size_t size; (size = fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
      text.append(buffer, size);
    const int status = pclose(pipe);
    code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return text;
  };
  int code = -1;
  EXPECT_THAT(run("max_steps=2", code),
              AllOf(HasSubstr("\"step\":1"), HasSubstr("\"step\":2"), HasSubstr("2 steps of ")));
  EXPECT_EQ(code, 0);
  EXPECT_THAT(run("output_dir=/tmp/x", code), HasSubstr("/tmp/x is outside of the roots"));
  EXPECT_EQ(code, MOONRING_PERMISSION_DENIED);
}

}  // namespace
}  // namespace moonring::testing
