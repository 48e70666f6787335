// memory_report compared with closed forms and with the memory that the operating system reports;
// and the messages of a run that cannot get the memory that it needs.

#include <sys/resource.h>

#include <fstream>
#include <memory>
#include <sstream>

#include "tests/scripts/workplace.h"
#include "tests/testing/busy_port.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr int64_t kReportHidden = 384, kReportInner = 1536, kReportLayers = 6,
                  kReportVocabulary = 675;
// The fraction of the operating system's number that may be unexplained: pages, and allocations by
// libraries, vary with the machine and the run.
constexpr double kUnexplained = 0.2;

// While this object exists, processes that are started may have an address space of this many
// bytes.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(int64_t bytes) {
    EXPECT_EQ(getrlimit(RLIMIT_AS, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(bytes);
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  }
  ~AddressSpaceLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_ = {};
};

class MemoryReportTest : public Workplace {
 protected:
  // Writes a model of 14 million parameters (57 MB), so that memory other than tensors (some MB for
  // any model) is small in comparison.
  MemoryReportTest() {
    uint32_t state = 1;
    StoredTensors weights;
    const auto add = [&](const std::string& name, std::vector<int64_t> shape, bool ones = false) {
      StoredTensor& tensor = weights[name];
      tensor.shape = shape;
      for (int64_t i = 0, n = shape[0] * (shape.size() == 2 ? shape[1] : 1); i < n; ++i) {
        state = state * 1664525u + 1013904223u;
        tensor.values.push_back(ones ? 1.0f
                                     : 0.05f * (static_cast<float>(state >> 8) / (1 << 23) - 1));
      }
      parameters_ += static_cast<int64_t>(tensor.values.size());
    };
    add("model.embed_tokens.weight", {kReportVocabulary, kReportHidden});
    add("model.norm.weight", {kReportHidden}, true);
    for (int layer = 0; layer < kReportLayers; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
        add(prefix + norm + ".weight", {kReportHidden}, true);
      for (const char* map : {"q_proj", "o_proj"})
        add(prefix + "self_attn." + map + ".weight", {kReportHidden, kReportHidden});
      for (const char* map : {"k_proj", "v_proj"})
        add(prefix + "self_attn." + map + ".weight", {kReportHidden / 2, kReportHidden});
      for (const char* map : {"gate_proj", "up_proj"})
        add(prefix + "mlp." + map + ".weight", {kReportInner, kReportHidden});
      add(prefix + "mlp.down_proj.weight", {kReportHidden, kReportInner});
    }
    tensors_ = static_cast<int64_t>(weights.size());
    WriteModel("model", weights,
               {{"hidden_size", kReportHidden},
                {"intermediate_size", kReportInner},
                {"num_hidden_layers", kReportLayers},
                {"head_dim", kReportHidden / 4}});
  }

  // Returns the bytes of address space that the program maps at its start, plus the model's file
  // (mapped once as a whole and once by tensors).
  int64_t MappedBytes() const {
    Write("size.lua",
          "for line in io.lines '/proc/self/status' do local kib = line:match 'VmSize:%s*(%d+)' if "
          "kib then print(kib) end end");
    const CommandResult result = Run({"size.lua"});
    EXPECT_THAT(result, Succeeds());
    return std::stoll(result.out) * 1024 + 2 * 4 * parameters_;
  }

  int64_t parameters_ = 0, tensors_ = 0;
};

constexpr char kOutOfMemory[] = "out of memory: [0-9.]+ [a-zA-Z]+ for ";

TEST_F(MemoryReportTest, ThePartsHaveTheirClosedForms) {
  constexpr int64_t kTokens = 96;
  const CommandResult result = Run({Runfile("tests/scripts/memory_parts.lua"), "model=model",
                                    "tokens=" + std::to_string(kTokens)});
  ASSERT_THAT(result, Succeeds());
  std::map<std::string, json> at;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    const json read = json::parse(line);
    at[read.at("what")] = read;
  }
  EXPECT_EQ(at["loaded in fp64"]["weights"], 8 * parameters_);
  EXPECT_EQ(at["loaded"]["weights"], 0) << "they are a file's pages";
  const int64_t input = kTokens * kReportHidden * 4;
  for (const std::string step : {"1", "2"}) {
    const json &forward = at["forward " + step], &loss = at["loss " + step],
               &backward = at["backward " + step], &end = at["step " + step];
    EXPECT_EQ(forward["checkpoint_inputs"], (kReportLayers + 1) * input)
        << "the blocks' and the last norm's";
    EXPECT_GE(forward["activations"], input) << "the last hidden states";
    EXPECT_LE(forward["activations"], 2 * input) << "and the rotary tables";
    EXPECT_EQ(forward["attention"], 0) << "backward makes it again";
    EXPECT_EQ(forward["logits"], 0);
    EXPECT_GE(loss["logits"], (kTokens - 1) * kReportVocabulary * 4) << "one chunk of them is kept";
    EXPECT_LE(loss["logits"], (kTokens - 1) * (kReportVocabulary * 4 + 64));
    EXPECT_EQ(loss["gradients"], 0);
    EXPECT_EQ(backward["gradients"], 4 * parameters_);
    EXPECT_EQ(backward["checkpoint_inputs"], 0);
    EXPECT_EQ(backward["optimizer"], step == "1" ? 0 : 8 * parameters_ + 4 * tensors_);
    EXPECT_EQ(end["optimizer"], 8 * parameters_ + 4 * tensors_);
    EXPECT_EQ(end["optimizer"], end["state_bytes"]);
    EXPECT_EQ(end["weights"], 4 * parameters_)
        << "the optimizer wrote them: they are the process's own now";
  }
  EXPECT_EQ(at["end"]["gradients"], 0);
  for (const char* part : {"activations", "attention", "logits", "communication"})
    EXPECT_EQ(at["end"][part], 0) << part;
}

TEST_F(MemoryReportTest, TheReportExplainsWhatTheKernelCounts) {
  WriteConfig("memory_report: true");
  const CommandResult result = Run({"train", "config.yaml"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("memory after the first step, at the peak of rank 0; MiB"),
            HasSubstr("memory at the end, at the peak of rank 0; MiB"),
            ContainsRegex("  optimizer +[0-9]+\\.[0-9] +[0-9]+\\.[0-9] % +[0-9]+\\.[0-9]\n"),
            HasSubstr("  checkpoint inputs "), HasSubstr("  held by allocator ")));
  const json report = ReadJson(Path("out/memory_report.json"));
  ASSERT_EQ(report.at("ranks").size(), 1u);
  const json &parts = report.at("worst").at("parts"), &totals = report.at("worst").at("totals");
  const double kernel = totals.at("kernel"), explained = totals.at("explained");
  EXPECT_GE(kernel, 16.0 * parameters_) << "weights, gradients and AdamW's states at once";
  EXPECT_NEAR(explained, kernel, kUnexplained * kernel) << report.dump(1);
  const json& plan = report.at("plan");
  const double training = kernel - parts.at("checkpoint_copy").get<double>();  // as predicted
  EXPECT_NEAR(plan.at("total").get<double>(), training, (0.1 + kUnexplained) * training)
      << "what was predicted; its own error is said to be a tenth";
  EXPECT_EQ(plan.at("weights"), 4 * parameters_);
  EXPECT_EQ(plan.at("optimizer"), 8 * parameters_);
  EXPECT_LE(parts.at("held_by_allocator"), 0.25 * kernel) << "most of it is for something";
  EXPECT_EQ(parts.at("weights"), 4 * parameters_);
  EXPECT_EQ(parts.at("optimizer"), 8 * parameters_ + 4 * tensors_);
  EXPECT_LE(parts.at("gradients"), 4 * parameters_);
  double sum = 0;
  for (const auto& [name, bytes] : parts.items()) sum += bytes.get<double>();
  EXPECT_EQ(sum, explained);

  const std::vector<json> lines = ReadJsonLines(Path("out/trainer_log.jsonl"));
  ASSERT_EQ(lines.size(), 4u);
  double greatest = 0;
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(lines[step].at("allocator_held_bytes").is_number_integer());
    EXPECT_GT(lines[step].at("peak_memory_bytes"), lines[step].at("peak_anonymous_bytes"))
        << "all that is resident, files too";
    greatest = std::max(greatest, lines[step].at("peak_anonymous_bytes").get<double>());
  }
  const double level = training + totals.at("start_level").get<double>();
  EXPECT_NEAR(greatest, level, kUnexplained * level);
}

TEST_F(MemoryReportTest, TheWorstOfSeveralRanksIsShown) {
  WriteConfig("memory_report: true\nsequence_parallel_size: 2\nmax_steps: 1");
  const CommandResult result = Run({"train", "config.yaml"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err,
              ContainsRegex("memory at the end, at the peak of rank [01], the greatest of 2; MiB"));
  const json report = ReadJson(Path("out/memory_report.json"));
  ASSERT_EQ(report.at("ranks").size(), 2u);
  for (const json& rank : report["ranks"]) {
    EXPECT_LE(rank["totals"]["kernel"], report["worst"]["totals"]["kernel"]);
    EXPECT_GE(rank["totals"]["explained"].get<double>(),
              (1 - kUnexplained) * rank["totals"]["kernel"].get<double>())
        << report.dump(1);
  }
}

TEST_F(MemoryReportTest, WithoutItTheLogStillSaysWhatTheAllocatorHolds) {
  WriteConfig("max_steps: 1");
  ASSERT_THAT(Run({"train", "config.yaml"}), Succeeds());
  EXPECT_FALSE(std::ifstream(Path("out/memory_report.json")).good());
  const json line = ReadJsonLines(Path("out/trainer_log.jsonl"))[0];
  EXPECT_TRUE(line.contains("allocator_held_bytes"));
  EXPECT_FALSE(line.contains("peak_anonymous_bytes"));
}

TEST_F(MemoryReportTest, AModelThatDoesNotFitIsReportedBeforeTheFirstStep) {
  WriteConfig("fp64: true");  // a copy of 8 bytes a parameter
  const AddressSpaceLimit limit(MappedBytes() + 4 * parameters_);
  EXPECT_THAT(Run({"train", "config.yaml"}),
              FailsWith(2, ContainsRegex(std::string(kOutOfMemory) +
                                         "weights \\(weights [0-9.]+ MiB live\\)$")));
}

TEST_F(MemoryReportTest, AStepThatDoesNotFitNamesThePartAndWhatLives) {
  WriteConfig("");
  // The limit is halfway between the memory of the backward (10 bytes per parameter) and of the
  // optimizer's step (17).
  const AddressSpaceLimit limit(MappedBytes() + 27 * parameters_ / 2);
  const CommandResult result = Run({"train", "config.yaml"});
  EXPECT_EQ(result.exit_code, 1) << result.Describe();
  EXPECT_THAT(result.err, ContainsRegex(std::string("moonring: ") + kOutOfMemory +
                                        "optimizer \\(.*gradients [0-9.]+ MiB.* live\\)\n$"));
}

TEST_F(MemoryReportTest, TheOtherRanksEndToo) {
  WriteConfig("sequence_parallel_size: 2\nddp_timeout: 600");
  const std::string port = FreePort();
  const auto rank = [&](int number) {
    CommandOptions options = Options({"train", "config.yaml"});
    options.environment.insert({{"RANK", std::to_string(number)},
                                {"WORLD_SIZE", "2"},
                                {"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", port}});
    return options;
  };
  const int64_t bytes = MappedBytes() + 8 * parameters_;
  Command first(rank(0));
  std::unique_ptr<Command> second;
  {
    const AddressSpaceLimit limit(bytes);
    second = std::make_unique<Command>(rank(1));
  }
  const CommandResult of_second = second->Wait(), of_first = first.Wait();
  EXPECT_EQ(of_second.exit_code, 1) << of_second.Describe();
  // The failed allocation may be a tensor's or one inside oneDNN.
  EXPECT_THAT(of_second.err, ContainsRegex("moonring: out of memory: .* for .* live\\)\n$"));
  EXPECT_FALSE(of_first.timed_out);
  EXPECT_EQ(of_first.exit_code, 1) << of_first.Describe();
}

}  // namespace
}  // namespace moonring::testing
