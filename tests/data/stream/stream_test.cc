// Streams: the orders of the datasets library's iterable data sets, the examples that LLaMA-Factory
// 0.9.5 streams (tests/golden/stream), saved states, invalid input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/mixing/numpy_random.h"
#include "data/preprocess_writer.h"
#include "data/steps/stream_steps.h"
#include "data/stream/example_stream.h"
#include "tests/data/golden_config.h"
#include "tests/testing/runfiles.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using ::moonring::testing::NamedTemplate;
using ::moonring::testing::Names;
using ::moonring::testing::OptionsOf;
using ::moonring::testing::ReadRunfile;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::SmolLM2;
using ::moonring::testing::StatusIs;
using nlohmann::json;
using ::testing::HasSubstr;

// Expected values from numpy 2: default_rng(42).integers(0, 7, size=12) after integers(0, 16384,
// size=8); shuffle(list(range(10))); integers(0, 1 << 63).
TEST(NumpyRandomTest, DrawsBelowABoundAndShufflesLists) {
  NumpyRandom random(42);
  std::vector<uint32_t> drawn;
  for (int i = 0; i < 8; ++i) drawn.push_back(random.Below(16384));
  EXPECT_THAT(drawn, ::testing::ElementsAre(1462, 12680, 10724, 7190, 7094, 14067, 1408, 11425));
  drawn.clear();
  NumpyRandom again(1);
  again.set_state(random.state());
  for (int i = 0; i < 12; ++i) drawn.push_back(again.Below(7));
  EXPECT_THAT(drawn, ::testing::ElementsAre(1, 0, 3, 6, 5, 5, 5, 5, 3, 0, 5, 3));
  std::vector<int> list = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  NumpyRandom(42).Shuffle(list);
  EXPECT_THAT(list, ::testing::ElementsAre(5, 6, 0, 7, 3, 2, 4, 9, 1, 8));
  EXPECT_EQ(NumpyRandom(42).Next64() >> 1, 7138484576005690180);
}

// Returns all batches of `size` examples in a pass, each example as a line.
std::vector<std::vector<std::string>> Batches(ExampleStream& stream, int64_t pass, int64_t size) {
  std::vector<std::vector<std::string>> batches;
  EXPECT_OK(stream.BeginPass(pass));
  while (true) {
    const auto at_end = stream.AtEnd();
    const auto batch = stream.NextBatch(size);
    EXPECT_OK(batch);
    EXPECT_OK(at_end);
    if (!batch.ok()) return batches;
    EXPECT_EQ(*at_end, batch->empty());
    if (batch->empty()) return batches;
    batches.emplace_back();
    for (const Example& example : *batch) batches.back().push_back(PreprocessedLine(example));
  }
}

std::vector<std::vector<std::string>> LinesOf(const json& batches, const json& lines) {
  std::vector<std::vector<std::string>> wanted;
  for (const json& batch : batches) {
    wanted.emplace_back();
    for (const json& line : batch) wanted.back().push_back(lines[line.get<size_t>()].dump());
  }
  return wanted;
}

// Sorts the keys of each line, as nlohmann::json does.
std::vector<std::vector<std::string>> Sorted(std::vector<std::vector<std::string>> batches) {
  for (auto& batch : batches) {
    for (std::string& line : batch) line = json::parse(line).dump();
  }
  return batches;
}

StreamOptions StreamOf(const json& config, int64_t threads) {
  StreamOptions options{.dataset = OptionsOf(config, "tests/golden/preprocess/data")};
  options.dataset.threads = threads;
  options.buffer_size = config.value("buffer_size", 16384);
  options.lanes = config.value("dataloader_num_workers", 1);
  options.held_out = config.value("val_size", 0);
  return options;
}

// Batch by batch, all recorded passes over the training rows and the pass over the rows held out
// for evaluation have the same examples as in LLaMA-Factory.
TEST(StreamTest, IsRowForRowLlamaFactorys) {
  const json cases = json::parse(ReadRunfile("tests/golden/stream/streams.json"));
  ASSERT_EQ(cases.size(), 10);
  int64_t threads = 0;
  for (const json& golden : cases) {
    const json& config = golden["config"];
    SCOPED_TRACE(config.dump());
    threads = threads % 4 + 1;
    StreamOptions options = StreamOf(config, threads);
    ASSERT_OK_AND_ASSIGN(const auto stream, ExampleStream::Create(options, SmolLM2()));
    for (size_t pass = 0; pass < golden["passes"].size(); ++pass) {
      EXPECT_EQ(Sorted(Batches(*stream, static_cast<int64_t>(pass),
                               config.value("per_device_train_batch_size", 2))),
                LinesOf(golden["passes"][pass], golden["lines"]))
          << "pass " << pass;
    }
    if (!golden.contains("held_out")) continue;
    options.only_held_out = options.held_out > 0;
    if (config.contains("eval_dataset")) options.dataset.names = Names(config["eval_dataset"]);
    ASSERT_OK_AND_ASSIGN(const auto held_out, ExampleStream::Create(options, SmolLM2()));
    EXPECT_EQ(Sorted(Batches(*held_out, 0, 8)), LinesOf(golden["held_out"], golden["lines"]));
  }
}

// Data sets whose rows contain their position: {"text": "DATASET ROW"}.
class OrderTest : public ::testing::Test {
 protected:
  DatasetOptions Describe(const std::vector<int64_t>& rows) {
    DatasetOptions options{.dataset_dir = folder_.path(),
                           .stage = Stage::kPretraining,
                           .chat_template = NamedTemplate("default"),
                           .packing = false};
    json info;
    for (size_t d = 0; d < rows.size(); ++d) {
      const std::string name = "d" + std::to_string(d);
      options.names.push_back(name);
      std::string text;
      for (int64_t row = 0; row < rows[d]; ++row)
        text += json{{"text", std::to_string(d) + " " + std::to_string(row)}}.dump() + "\n";
      folder_.Write(name + ".jsonl", text);
      info[name] = {{"file_name", name + ".jsonl"}, {"columns", {{"prompt", "text"}}}};
    }
    folder_.Write("dataset_info.json", info.dump());
    return options;
  }

  static std::string PlaceOf(const Example& example) {
    return SmolLM2()->Decode(example.documents[0].ids, /*skip_special=*/true);
  }

  // Returns the order of a pass, with one example from each lane (data loading worker) in turn.
  static std::vector<std::string> Order(ExampleStream& stream, int64_t pass) {
    std::vector<std::string> order;
    EXPECT_OK(stream.BeginPass(pass));
    while (true) {
      const auto batch = stream.NextBatch(1);
      EXPECT_OK(batch);
      if (!batch.ok() || batch->empty()) return order;
      order.push_back(PlaceOf((*batch)[0]));
    }
  }

  static std::vector<std::string> InTurn(const json& lanes) {
    std::vector<std::string> order;
    for (size_t i = 0;; ++i) {
      bool any = false;
      for (const json& lane : lanes) {
        if (i >= lane.size()) continue;
        any = true;
        order.push_back(std::to_string(lane[i][0].get<int>()) + " " +
                        std::to_string(lane[i][1].get<int>()));
      }
      if (!any) return order;
    }
  }

  ScratchFolder folder_;
};

TEST_F(OrderTest, IsThatOfDatasets) {
  const json cases = json::parse(ReadRunfile("tests/golden/stream/orders.json"));
  ASSERT_EQ(cases.size(), 13);
  for (const json& golden : cases) {
    SCOPED_TRACE(golden["rows"].dump() + golden.value("mix", "concat"));
    StreamOptions options{.dataset = Describe(golden["rows"])};
    options.dataset.seed = golden.value("seed", 42);
    options.dataset.mix.strategy = *ParseMixStrategy(golden.value("mix", "concat"));
    if (golden.contains("probabilities"))
      options.dataset.mix.probabilities = golden["probabilities"].get<std::vector<double>>();
    options.buffer_size = golden["buffer"];
    options.lanes = golden.value("workers", 1);
    options.held_out = golden.value("skip", 0);
    ASSERT_OK_AND_ASSIGN(const auto stream, ExampleStream::Create(options, SmolLM2()));
    for (size_t pass = 0; pass < golden["orders"].size(); ++pass) {
      EXPECT_EQ(Order(*stream, static_cast<int64_t>(pass)), InTurn(golden["orders"][pass]))
          << "pass " << pass;
    }
    if (!golden.contains("held_out")) continue;
    options.only_held_out = true;
    ASSERT_OK_AND_ASSIGN(const auto held_out, ExampleStream::Create(options, SmolLM2()));
    EXPECT_EQ(Order(*held_out, 0), InTurn(golden["held_out"]));
  }
}

// interleave_once equals all_exhausted_without_replacement of datasets 4.8. Without a shuffle
// buffer, so that the order of mixing is visible.
TEST_F(OrderTest, InterleavesOnce) {
  StreamOptions options{.dataset = Describe({1, 3, 2}), .shuffle = false};
  options.dataset.mix.strategy = MixStrategy::kInterleaveOnce;
  ASSERT_OK_AND_ASSIGN(const auto stream, ExampleStream::Create(options, SmolLM2()));
  EXPECT_THAT(Order(*stream, 0), ::testing::ElementsAre("0 0", "1 0", "2 0", "1 1", "2 1", "1 2"));
}

// A step takes whole batches of the lanes (data loading workers). A pass ends with a shorter step,
// and example indices continue over passes.
TEST_F(OrderTest, StepsEndWithThePass) {
  StreamOptions options{.dataset = Describe({11}), .buffer_size = 4};
  ASSERT_OK_AND_ASSIGN(auto stream, ExampleStream::Create(options, SmolLM2()));
  ASSERT_OK_AND_ASSIGN(
      const auto steps,
      StreamSteps::Create(std::move(stream), {.batch = 2, .batches = 2, .total_steps = 7}));
  std::vector<std::vector<int64_t>> indices;
  std::vector<std::array<int64_t, 3>> where;
  while (true) {
    ASSERT_OK_AND_ASSIGN(const auto step, steps->Next());
    if (!step.has_value()) break;
    indices.push_back(step->batch.examples);
    where.push_back({step->batch.epoch, step->batch.step, step->batch.last});
  }
  EXPECT_EQ(indices, (std::vector<std::vector<int64_t>>{{0, 1, 2, 3},
                                                        {4, 5, 6, 7},
                                                        {8, 9, 10},
                                                        {11, 12, 13, 14},
                                                        {15, 16, 17, 18},
                                                        {19, 20, 21},
                                                        {22, 23, 24, 25}}));
  EXPECT_EQ(where,
            (std::vector<std::array<int64_t, 3>>{
                {0, 0, 0}, {0, 1, 0}, {0, 2, 1}, {1, 0, 0}, {1, 1, 0}, {1, 2, 1}, {2, 0, 0}}));
}

// From the state after each step, a new stream continues like the uninterrupted one: for every
// mixing strategy, several lanes, buffers of all fill levels, and packed batches.
TEST(StreamStateTest, ResumesFromAnyStep) {
  const json cases = json::parse(ReadRunfile("tests/golden/stream/streams.json"));
  for (const json& golden : cases) {
    SCOPED_TRACE(golden["config"].dump());
    StreamOptions options = StreamOf(golden["config"], 2);
    options.dataset.preprocessing_batch_size =
        std::min<int64_t>(options.dataset.preprocessing_batch_size, 6);
    const auto make = [&] {
      return *StreamSteps::Create(*ExampleStream::Create(options, SmolLM2()),
                                  {.batch = 3, .batches = 2, .total_steps = 14});
    };
    const auto text = [](const StepExamples& step) {
      std::string all = std::to_string(step.batch.epoch) + " " + std::to_string(step.batch.step) +
                        " " + std::to_string(step.batch.examples[0]);
      for (const auto& example : step.examples) all += "\n" + PreprocessedLine(*example);
      return all;
    };
    std::vector<std::string> states, steps;
    const auto unbroken = make();
    while (true) {
      states.push_back(unbroken->SaveState());
      ASSERT_OK_AND_ASSIGN(const auto step, unbroken->Next());
      if (!step.has_value()) break;
      steps.push_back(text(*step));
    }
    ASSERT_EQ(steps.size(), 14);
    for (size_t begin = 0; begin < states.size(); begin += 3) {
      const auto resumed = make();
      resumed->Next().IgnoreError();  // loading works although the buffer is in use
      ASSERT_OK(resumed->LoadState(states[begin]));
      for (size_t i = begin; i < steps.size(); ++i) {
        ASSERT_OK_AND_ASSIGN(const auto step, resumed->Next());
        ASSERT_TRUE(step.has_value());
        ASSERT_EQ(text(*step), steps[i]) << "from " << begin << " at " << i;
      }
      EXPECT_FALSE((*resumed->Next()).has_value());
    }
  }
}

TEST_F(OrderTest, RefusesOtherStates) {
  const auto make = [&](int64_t seed, int64_t batch = 2, int64_t batches = 1, int64_t lanes = 1) {
    StreamOptions options{.dataset = Describe({20}), .buffer_size = 4, .lanes = lanes};
    options.dataset.seed = seed;
    return *StreamSteps::Create(*ExampleStream::Create(options, SmolLM2()),
                                {.batch = batch, .batches = batches});
  };
  const auto make_after = [](std::unique_ptr<StreamSteps> steps, int made) {
    for (int i = 0; i < made; ++i) steps->Next().IgnoreError();
    return steps;
  };
  const auto steps = make_after(make(1), 3);
  const std::string state = steps->SaveState();
  EXPECT_THAT(make(2)->LoadState(state), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                  HasSubstr("saved of another stream")));
  EXPECT_THAT(
      make(1, 2, 2)->LoadState(state),
      StatusIs(
          absl::StatusCode::kFailedPrecondition,
          HasSubstr("6 examples of the pass had been taken, which no whole number of steps of 4")));
  // Six examples are two steps of three with the same contents in the same order. With two lanes,
  // which alternate by batches, the order would differ.
  const auto threes = make(1, 3);
  ASSERT_OK(threes->LoadState(state));
  EXPECT_EQ(PlaceOf(*(*threes->Next())->examples[0]),
            PlaceOf(*(*make_after(make(1), 3)->Next())->examples[0]));
  const auto lanes = make_after(make(1, 2, 1, 2), 3);
  EXPECT_THAT(
      make(1, 3, 1, 2)->LoadState(lanes->SaveState()),
      StatusIs(
          absl::StatusCode::kFailedPrecondition,
          HasSubstr("per_device_train_batch_size was 2, is 3: with dataloader_num_workers 2")));
  for (const std::string& broken :
       {std::string("{"), std::string("{}"), state.substr(0, state.find('\n')),
        state.substr(0, state.size() - 9), state + "\n{}"}) {
    EXPECT_EQ(steps->LoadState(broken).code(), absl::StatusCode::kInvalidArgument);
  }
  const auto going_on = make(1);
  ASSERT_OK(going_on->LoadState(state));
  EXPECT_EQ(PlaceOf(*(*steps->Next())->examples[0]),
            PlaceOf(*(*going_on->Next())->examples[0]));  // rejected states did not move it
  folder_.Write("d0.jsonl", "{\"text\": \"0 0\"}\n");
  EXPECT_FALSE(steps->LoadState(state).ok());
}

TEST_F(OrderTest, NamesWhatIsWrong) {
  const auto error = [&](StreamOptions options) {
    const auto stream = ExampleStream::Create(std::move(options), SmolLM2());
    if (!stream.ok()) return std::string(stream.status().message());
    EXPECT_OK((*stream)->BeginPass(0));
    for (int i = 0; i < 100; ++i) {
      const auto batch = (*stream)->NextBatch(1);
      if (!batch.ok()) return std::string(batch.status().message());
      if (batch->empty()) return std::string((*stream)->Check().message());
    }
    return std::string("no error");
  };
  StreamOptions options{.dataset = Describe({3, 2})};
  options.dataset.max_samples = 1;
  EXPECT_EQ(error(options), "max_samples and streaming exclude one another");
  EXPECT_EQ(error({.dataset = Describe({3, 2}), .buffer_size = 0}),
            "buffer_size must be 1 to 2^31, got 0");
  EXPECT_EQ(error({.dataset = Describe({3, 2}), .lanes = 3}),
            "dataloader_num_workers: data set 'd1': its 2 rows cannot be cut in 3 parts");
  options = {.dataset = Describe({3, 2})};
  folder_.Write("d1.jsonl", "\n");
  EXPECT_THAT(error(options), HasSubstr("data set 'd1': is empty: "));
  folder_.Write("d1.jsonl", "{\"text\": \"1 0\"}\n{\"text\": [1]}\n{\n");
  EXPECT_THAT(error(options), HasSubstr("data set 'd1': "));
  folder_.Write("d1.jsonl", "{\"text\": \"1 0\"}\n{\n");
  EXPECT_THAT(error(options), HasSubstr("d1.jsonl:2:2 (row 2): syntax error"));
  folder_.Write("d1.jsonl", "{\"texts\": \"1 0\"}\n");
  EXPECT_THAT(error(options), HasSubstr("d1.jsonl: no row has the key 'text', which is to be its "
                                        "prompt (did you mean 'texts'?)"));
}

}  // namespace
}  // namespace moonring::data
