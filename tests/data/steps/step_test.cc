// From lengths and seeds to micro-batches: truncation of turns, the order of an epoch, the examples
// of each step, packing, resuming.
#include <algorithm>
#include <fstream>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/steps/dataset_steps.h"
#include "data/steps/epoch_order.h"
#include "data/steps/length_groups.h"
#include "data/steps/packer.h"
#include "data/steps/prefixes.h"
#include "data/steps/step.h"
#include "data/steps/step_batches.h"
#include "data/steps/step_source.h"
#include "data/truncation.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using ::moonring::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

// A hash of a list; the same in Python: for x in list: h = (h * 1099511628211 + x + 1) % 2**64.
uint64_t Digest(const Ints& list, uint64_t h = 0) {
  for (const int64_t x : list) h = h * 1099511628211ull + static_cast<uint64_t>(x) + 1;
  return h;
}

// The truncated lengths equal those of infer_seqlen in LLaMA-Factory 0.9.5: some values by hand,
// and a hash of 168,516 results over a grid of lengths.
TEST(TruncationTest, FitsTurnsAsLlamaFactory) {
  const auto fit = [](int64_t prompt, int64_t response, int64_t room) {
    const TurnLengths kept = FitTurn(prompt, response, room);
    return std::pair(kept.prompt, kept.response);
  };
  EXPECT_EQ(fit(100, 100, 100), std::pair(50l, 50l));
  EXPECT_EQ(fit(30, 60, 64), std::pair(30l, 34l));
  EXPECT_EQ(fit(7, 5, 9), std::pair(6l, 3l));
  EXPECT_EQ(fit(1000, 3, 64), std::pair(61l, 3l));
  EXPECT_EQ(fit(3, 1000, 64), std::pair(3l, 61l));
  Ints prompts(50), responses(50), rooms(59);
  std::iota(prompts.begin(), prompts.end(), 0);
  std::iota(responses.begin(), responses.end(), 0);
  std::iota(rooms.begin(), rooms.end(), 1);
  prompts.insert(prompts.end(), {333, 1000, 12345});
  responses.insert(responses.end(), {334, 1001, 54321});
  rooms.insert(rooms.end(), {100, 777, 2048});
  uint64_t digest = 0;
  for (const int64_t prompt : prompts) {
    for (const int64_t response : responses) {
      for (const int64_t room : rooms) {
        const TurnLengths kept = FitTurn(prompt, response, room);
        digest = Digest({kept.prompt, kept.response}, digest);
      }
    }
  }
  EXPECT_EQ(digest, 12342544303487559548ull);
}

// Labels under each option, for two turns: 1 2 -> 3 4 and 5 6 7 -> 8 9. x is -100.
TEST(TruncationTest, KeepsTheLabelsThatAreAskedFor) {
  const std::vector<EncodedTurn> turns = {{{1, 2}, {3, 4}}, {{5, 6, 7}, {8, 9}}};
  constexpr int32_t x = kNotLearnt;
  const auto labels = [&](LearnOptions options) {
    return BuildConversation(turns, options).document.labels;
  };
  const auto ids = [&](LearnOptions options) {
    return BuildConversation(turns, options).document.ids;
  };
  EXPECT_THAT(ids({}), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(labels({}), ElementsAre(x, x, 3, 4, x, x, x, 8, 9));
  EXPECT_THAT(labels({.train_on_prompt = true}), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(ids({.mask_history = true}), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(labels({.mask_history = true}), ElementsAre(x, x, x, x, x, x, x, 8, 9));
  // cutoff_len 6 leaves two tokens for the second turn, which are divided in proportion: 2 x 2/5 =
  // 0.8, so none for the response. With mask_history, the second turn is processed first.
  EXPECT_THAT(ids({.cutoff_len = 6}), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(labels({.cutoff_len = 6}), ElementsAre(x, x, 3, 4, x, x));
  EXPECT_THAT(ids({.cutoff_len = 6, .mask_history = true}), ElementsAre(1, 5, 6, 7, 8, 9));
  EXPECT_THAT(labels({.cutoff_len = 6, .mask_history = true}), ElementsAre(x, x, x, x, 8, 9));
  EXPECT_THAT(ids({.cutoff_len = 4}),
              ElementsAre(1, 2, 3, 4));  // a turn that begins at the limit is omitted
  EXPECT_EQ(BuildConversation(turns, {}).whole_tokens, 9);
  EXPECT_FALSE(BuildConversation(turns, {.cutoff_len = 9}).truncated());
  EXPECT_TRUE(BuildConversation(turns, {.cutoff_len = 8}).truncated());
  // With efficient_eos, an eos (0) ends the example, and is a label at the position where each
  // later turn begins.
  EXPECT_THAT(ids({.efficient_eos = 0}), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 0));
  EXPECT_THAT(labels({.efficient_eos = 0}), ElementsAre(x, x, 3, 4, 0, x, x, 8, 9, 0));
  EXPECT_THAT(ids({.cutoff_len = 5, .efficient_eos = 0}), ElementsAre(1, 2, 3, 4, 0));
  EXPECT_THROW(BuildConversation(turns, {.train_on_prompt = true, .mask_history = true}),
               c10::Error);
  EXPECT_THROW(BuildConversation(turns, {.train_on_prompt = true, .efficient_eos = 0}), c10::Error);
}

// An epoch's order equals torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch))
// in Python.
TEST(EpochOrderTest, IsTorchsPermutation) {
  EXPECT_THAT(EpochOrder(10, 42, 0, true), ElementsAre(2, 6, 1, 8, 4, 5, 0, 9, 3, 7));
  EXPECT_THAT(EpochOrder(10, 42, 1, true), ElementsAre(8, 4, 9, 0, 5, 1, 6, 7, 2, 3));
  EXPECT_THAT(EpochOrder(1, 5, 0, true), ElementsAre(0));
  EXPECT_EQ(Digest(EpochOrder(999, 42, 0, true)), 3225213128885619610ull);
  EXPECT_EQ(Digest(EpochOrder(20000, 5, 2, true)), 7126588517026135146ull);
  EXPECT_EQ(Digest(EpochOrder(40000, 7, 0, true)),
            15357990498306097650ull);  // LibTorch has another algorithm for large n
  EXPECT_THAT(EpochOrder(4, 42, 1, false), ElementsAre(0, 1, 2, 3));
}

// The same lengths as in tests/golden/length_groups/make.py.
Ints LengthsOf(const nlohmann::json& golden) {
  Ints lengths(golden.at("n").get<int64_t>());
  for (size_t i = 0; i < lengths.size(); ++i)
    lengths[i] =
        (static_cast<int64_t>(i) * 7919 + 13) % 1009 % golden.at("most").get<int64_t>() + 1;
  return lengths;
}

TEST(LengthGroupsTest, AreTransformers) {
  const auto all = nlohmann::json::parse(std::ifstream("tests/golden/length_groups/orders.json"));
  ASSERT_EQ(all.size(), 7);
  for (const auto& golden : all) {
    const Ints lengths = LengthsOf(golden), order = golden.at("order");
    const int64_t n = golden.at("n"), batch = golden.at("batch"), epoch = golden.at("epoch"),
                  seed = golden.at("seed");
    EXPECT_EQ(GroupByLength(EpochOrder(n, seed, epoch, true), lengths, batch), order);
    // Steps follow this order and can be resumed after any step.
    const StepBatchesOptions options{
        .examples = n, .examples_per_step = batch, .seed = seed, .lengths = lengths};
    ASSERT_OK_AND_ASSIGN(const auto batches, StepBatches::Create(options));
    Ints taken;
    std::string state;
    while (true) {
      ASSERT_OK_AND_ASSIGN(const std::optional<StepBatch> got, batches->Next());
      if (got->epoch > epoch) break;
      if (got->epoch < epoch) continue;
      taken.insert(taken.end(), got->examples.begin(), got->examples.end());
      if (got->step == 0) state = batches->SaveState();
    }
    EXPECT_EQ(taken, order);
    if (n <= batch) continue;
    ASSERT_OK_AND_ASSIGN(const auto resumed, StepBatches::Create(options));
    ASSERT_OK(resumed->LoadState(state));
    EXPECT_EQ((*resumed->Next())->examples[0], order[batch]);
  }
}

// A state saved with group_by_length cannot be loaded with another number of examples per step, or
// without group_by_length.
TEST(LengthGroupsTest, ArePartOfTheState) {
  StepBatchesOptions options{.examples = 6, .examples_per_step = 2, .lengths = {1, 2, 3, 4, 5, 6}};
  const std::string grouped = (*StepBatches::Create(options))->SaveState();
  options.examples_per_step = 1;
  EXPECT_THAT((*StepBatches::Create(options))->LoadState(grouped),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("grouped by length (0: none is) was 2, is 1")));
  options.lengths = {};
  const auto plain = *StepBatches::Create(options);
  EXPECT_THAT(plain->LoadState(grouped),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("was 2, is 0")));
  // Older states have no "grouped".
  nlohmann::json old = nlohmann::json::parse(plain->SaveState());
  old.erase("grouped");
  EXPECT_OK(plain->LoadState(old.dump()));
  options.lengths = {1, 2};
  EXPECT_THAT(StepBatches::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 lengths of 6 examples")));
}

TEST(StepBatchesTest, NeverCrossesAnEpochAndRepeatsNothing) {
  for (const int64_t n : {1, 2, 7, 8, 9, 24, 25}) {
    for (const auto& [batch, dp, accumulation] : std::vector<std::array<int64_t, 3>>{
             {1, 1, 1}, {2, 1, 1}, {2, 2, 3}, {3, 1, 2}, {5, 2, 4}}) {
      ASSERT_OK_AND_ASSIGN(
          const auto batches,
          StepBatches::Create(
              {.examples = n, .examples_per_step = batch * dp * accumulation, .seed = 3}));
      const int64_t loader_batches = (n + batch * dp - 1) / (batch * dp);
      const int64_t steps = (loader_batches + accumulation - 1) / accumulation;
      EXPECT_EQ(batches->steps_per_epoch(), steps);
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        Ints seen;
        for (int64_t step = 0; step < steps; ++step) {
          ASSERT_OK_AND_ASSIGN(const std::optional<StepBatch> got, batches->Next());
          EXPECT_EQ(got->epoch, epoch);
          EXPECT_EQ(got->step, step);
          EXPECT_GE(got->examples.size(), 1);
          if (step + 1 < steps) {
            EXPECT_EQ(got->examples.size(), batch * dp * accumulation);
          }
          seen.insert(seen.end(), got->examples.begin(), got->examples.end());
        }
        EXPECT_EQ(seen, EpochOrder(n, 3, epoch, true));
      }
    }
  }
}

TEST(StepBatchesTest, ResumesInAnyEpoch) {
  const StepBatchesOptions options{
      .examples = 10, .examples_per_step = 4, .seed = 11, .total_steps = 8};
  ASSERT_OK_AND_ASSIGN(const auto unbroken, StepBatches::Create(options));
  std::vector<std::string> states;
  std::vector<Ints> steps;
  while (true) {
    states.push_back(unbroken->SaveState());
    ASSERT_OK_AND_ASSIGN(const std::optional<StepBatch> batch, unbroken->Next());
    if (!batch.has_value()) break;
    steps.push_back(batch->examples);
  }
  ASSERT_EQ(steps.size(), 8);  // two epochs of 3 steps, and 2 steps
  EXPECT_FALSE((*unbroken->Next()).has_value());
  for (size_t begin = 0; begin < states.size(); ++begin) {
    ASSERT_OK_AND_ASSIGN(const auto resumed, StepBatches::Create(options));
    resumed->Next().IgnoreError();  // loading works although an order is already computed
    ASSERT_OK(resumed->LoadState(states[begin]));
    for (size_t i = begin; i < steps.size(); ++i) EXPECT_EQ((*resumed->Next())->examples, steps[i]);
    EXPECT_FALSE((*resumed->Next()).has_value());
  }
  // After 8 examples of epoch 0: this is a step boundary for steps of 2 examples, but not of 3.
  ASSERT_OK_AND_ASSIGN(const auto twos,
                       StepBatches::Create({.examples = 10, .examples_per_step = 2, .seed = 11}));
  ASSERT_OK(twos->LoadState(states[2]));
  EXPECT_EQ((*twos->Next())->examples, steps[2]);
  ASSERT_OK_AND_ASSIGN(const auto threes,
                       StepBatches::Create({.examples = 10, .examples_per_step = 3, .seed = 11}));
  EXPECT_THAT(
      threes->LoadState(states[2]),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("after 8 examples of the epoch, which no whole number of steps of 3")));
  ASSERT_OK_AND_ASSIGN(const auto other,
                       StepBatches::Create({.examples = 10, .examples_per_step = 4, .seed = 12}));
  EXPECT_THAT(other->LoadState(states[2]),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("seed was 11, is 12: the order of examples would differ")));
  EXPECT_THAT(other->LoadState("{\"stage\": \"row_source\"}"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a state")));
  EXPECT_THAT(other->LoadState("{"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a state")));
}

// dataloader_drop_last: n is rounded down to whole batches of batch x dp, unless that would be
// zero. The examples at the end of each epoch's order are skipped.
TEST(StepBatchesTest, DropsWhatFillsNoBatch) {
  for (const auto& [n, steps, last_step] : std::vector<std::array<int64_t, 3>>{
           {10, 2, 3}, {12, 2, 6}, {15, 3, 3}, {3, 1, 3}, {2, 1, 2}}) {
    ASSERT_OK_AND_ASSIGN(
        const auto batches,
        StepBatches::Create(
            {.examples = n, .examples_per_step = 6, .seed = 3, .drop_last = true, .batch = 3}));
    EXPECT_EQ(batches->steps_per_epoch(), steps) << n;
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      const Ints order = EpochOrder(n, 3, epoch, true);
      Ints seen;
      for (int64_t step = 0; step < steps; ++step) {
        const StepBatch got = (*batches->Next()).value();
        EXPECT_EQ(got.last, step + 1 == steps);
        if (got.last) {
          EXPECT_EQ(got.examples.size(), last_step) << n;
        }
        seen.insert(seen.end(), got.examples.begin(), got.examples.end());
      }
      EXPECT_TRUE(std::equal(seen.begin(), seen.end(), order.begin()));
    }
  }
  EXPECT_THAT(StepBatches::Create({.examples = 9, .examples_per_step = 4, .batch = 3}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a step of 4 examples is no number of batches of 3")));
}

TEST(StepBatchesTest, RefusesEmptySteps) {
  EXPECT_THAT(StepBatches::Create({.examples = 0, .examples_per_step = 1}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at least 1 example, got 0")));
  EXPECT_THAT(StepBatches::Create({.examples = 1, .examples_per_step = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at least 1 example, got 0")));
}

TEST(StepBatchesTest, TakesCustomOrders) {
  StepBatchesOptions options{.examples = 3, .examples_per_step = 2};
  options.orders = {{2, 0, 1}, {1, 2, 0}};
  const auto batches = StepBatches::Create(options);
  ASSERT_OK(batches);
  std::vector<Ints> taken;
  for (int step = 0; step < 4; ++step) taken.push_back((*(*batches)->Next())->examples);
  EXPECT_THAT(taken, ElementsAre(Ints{2, 0}, Ints{1}, Ints{1, 2}, Ints{0}));
  EXPECT_THAT((*batches)->Next(), StatusIs(absl::StatusCode::kOutOfRange,
                                           HasSubstr("epoch 2 has no order: 2 were given")));
  const std::pair<Ints, const char*> wrong[] = {{{0, 1}, "an order of 2 examples, there are 3"},
                                                {{0, 1, 3}, "an order with example 3 of 3"},
                                                {{0, 1, 1}, "an order with example 1 twice"}};
  for (const auto& [order, message] : wrong) {
    options.orders = {{0, 1, 2}, order};
    EXPECT_THAT(StepBatches::Create(options),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

// Regroup keeps the documents of a step for any number of groups. The most expensive group is
// assigned first, each to the rank with the least work.
TEST(RegroupTest, PacksAStepAgain) {
  StepExamples taken;
  for (int64_t e = 0; e < 5; ++e) {
    taken.batch.examples.push_back(10 + e);
    const std::vector<int32_t> ids(e + 1, static_cast<int32_t>(e));
    taken.examples.push_back(
        std::make_shared<const Example>(Example{.documents = {{.ids = ids, .labels = ids}}}));
  }
  Step first = MakeStep(taken, {.dp = 2, .micro_batch_tokens = 4}, 0);
  Step second = MakeStep(taken, {.dp = 2, .micro_batch_tokens = 4}, 1);
  EXPECT_THAT(first.lengths, ElementsAre(1, 2, 3, 4, 5));
  ASSERT_OK(Regroup({{4}, {1, 0}, {}, {3, 2}}, 2, 0, first));
  ASSERT_OK(Regroup({{4}, {1, 0}, {}, {3, 2}}, 2, 1, second));
  ASSERT_EQ(first.micro_batches.size(), 1);  // seven tokens; the other rank: five and three
  EXPECT_THAT(first.micro_batches[0].examples, ElementsAre(13, 12));
  ASSERT_EQ(second.micro_batches.size(), 2);
  EXPECT_THAT(second.micro_batches[0].places, ElementsAre(1, 0));
  EXPECT_THAT(second.micro_batches[1].sequence.lengths, ElementsAre(5));
  const std::pair<std::vector<Ints>, const char*> wrong[] = {
      {{{0, 1, 2, 3}}, "place 4 is in no group"},
      {{{0, 1, 2, 3, 4}, {2}}, "place 2 is in two groups"},
      {{{0, 1, 2, 3, 5}}, "no place 5 in a step of 5 examples"}};
  for (const auto& [groups, message] : wrong) {
    EXPECT_THAT(Regroup(groups, 2, 0, first),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
  EXPECT_EQ(first.micro_batches.size(), 1);  // unchanged
}

TEST(PackerTest, PacksByHand) {
  // One rank: 6 fills a micro-batch; 5 and 1 share one, 4 and 2 too; the longer one (9) is alone.
  EXPECT_EQ(PackStep({1, 5, 9, 4, 2, 6}, {.dp = 1, .micro_batch_tokens = 6}),
            (Packing{{{0, 1}, {2}, {3, 4}, {5}}}));
  // Everything fits: one micro-batch in the step's order.
  EXPECT_EQ(PackStep({3, 1, 2}, {.dp = 1, .micro_batch_tokens = 6}), (Packing{{{0, 1, 2}}}));
  EXPECT_EQ(PackStep({3, 1, 2}, {.dp = 2, .micro_batch_tokens = 6}), (Packing{{{0}}, {{1, 2}}}));
  EXPECT_EQ(PackStep({5}, {.dp = 3, .micro_batch_tokens = 6}), (Packing{{{0}}, {}, {}}));
  EXPECT_EQ(PackStep({}, {.dp = 2, .micro_batch_tokens = 6}), (Packing{{}, {}}));
  EXPECT_THROW(PackStep({0}, {.dp = 1, .micro_batch_tokens = 6}), c10::Error);
  EXPECT_THROW(PackStep({1}, {.dp = 0, .micro_batch_tokens = 6}), c10::Error);
  EXPECT_THROW(PackStep({1}, {.dp = 1, .micro_batch_tokens = 0}), c10::Error);
}

TEST(PackerTest, CoversBoundsAndBalances) {
  uint64_t random = 1;
  const auto next = [&](int64_t below) {
    return static_cast<int64_t>(
               (random = random * 6364136223846793005ull + 1442695040888963407ull) >> 33) %
           below;
  };
  for (int round = 0; round < 200; ++round) {
    Ints lengths(1 + next(40));
    for (int64_t& length : lengths) length = 1 + next(next(2) ? 100 : 2000);
    const PackOptions options{.dp = 1 + next(5), .micro_batch_tokens = 1 + next(3000)};
    const Packing packing = PackStep(lengths, options);
    ASSERT_EQ(packing.size(), options.dp);
    std::multiset<int64_t> placed;
    Ints tokens(options.dp);
    int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    for (int64_t rank = 0; rank < options.dp; ++rank) {
      for (const Ints& micro_batch : packing[rank]) {
        ASSERT_FALSE(micro_batch.empty());
        EXPECT_TRUE(std::is_sorted(micro_batch.begin(), micro_batch.end()));
        int64_t sum = 0;
        for (const int64_t example : micro_batch) sum += lengths[example];
        EXPECT_TRUE(sum <= options.micro_batch_tokens || micro_batch.size() == 1) << sum;
        tokens[rank] += sum;
        placed.insert(micro_batch.begin(), micro_batch.end());
      }
    }
    ASSERT_EQ(placed.size(), lengths.size());  // each example exactly once
    for (size_t i = 0; i < lengths.size(); ++i) ASSERT_EQ(placed.count(i), 1);
    // The rank with the least work is at most one example behind, and by the cost of attention, in
    // this test at most 1/8.
    const auto [least, most] = std::minmax_element(tokens.begin(), tokens.end());
    EXPECT_LE(*most - *least, longest + *most / 8);
    EXPECT_EQ(PackStep(lengths, options), packing);
  }
}

StepExamples StepOf(const std::vector<Example>& dataset, const Ints& indices) {
  StepExamples step{.batch = {.examples = indices}};
  for (const int64_t index : indices)
    step.examples.push_back(std::make_shared<const Example>(dataset[index]));
  return step;
}

absl::StatusOr<std::unique_ptr<StepSource>> StepsOf(
    std::shared_ptr<const std::vector<Example>> dataset, const StepBatchesOptions& order,
    PackOptions packing, int64_t dp_rank) {
  auto examples = DatasetSteps::Create(std::move(dataset), *StepBatches::Create(order));
  if (!examples.ok()) return examples.status();
  return StepSource::Create(*std::move(examples), packing, dp_rank);
}

Ints List(const at::Tensor& tensor) {
  return Ints(tensor.const_data_ptr<int64_t>(), tensor.const_data_ptr<int64_t>() + tensor.numel());
}

TEST(MicroBatchTest, ShiftsLabelsInsideDocuments) {
  const std::vector<Example> dataset = {
      {{{{1, 2, 3}, {-100, 2, 3}}}}, {{{{9}, {9}}}}, {{{{4, 5}, {4, -100}}}}};
  const MicroBatch micro_batch = MakeMicroBatch(StepOf(dataset, {2, 1, 0}), {0, 2, 1});
  EXPECT_OK(comm::Validate(micro_batch.sequence));
  EXPECT_THAT(micro_batch.examples, ElementsAre(2, 0, 1));
  EXPECT_THAT(micro_batch.places, ElementsAre(0, 2, 1));
  EXPECT_THAT(micro_batch.documents, Each(1));
  EXPECT_TRUE(micro_batch.desirable.empty());
  EXPECT_THAT(micro_batch.sequence.lengths, ElementsAre(2, 3, 1));
  EXPECT_THAT(List(micro_batch.sequence.ids_T), ElementsAre(4, 5, 1, 2, 3, 9));
  EXPECT_THAT(List(micro_batch.labels_T), ElementsAre(4, -100, -100, 2, 3, 9));
  EXPECT_THAT(List(micro_batch.sequence.positions_T), ElementsAre(0, 1, 0, 1, 2, 0));
  EXPECT_THAT(List(micro_batch.sequence.targets_T), ElementsAre(-100, -100, 2, 3, -100, -100));
  const int64_t one = int64_t{1} << 32;
  EXPECT_THAT(List(micro_batch.sequence.identity_T),
              ElementsAre(2 * one, 2 * one + 1, 0, 1, 2, one));
  EXPECT_THROW(MakeMicroBatch(StepOf(dataset, {2}), {1}), c10::Error);
}

TEST(MicroBatchTest, KeepsPairsTogetherAndMismatchedDocumentsApart) {
  const Document a{{1, 2}, {-100, 2}}, b{{3}, {3}}, c{{4, 5, 6}, {-100, 5, 6}},
      d{{7, 8}, {-100, 8}};
  const int64_t one = int64_t{1} << 32, second = int64_t{1} << 31;
  const MicroBatch pairs = MakeMicroBatch(StepOf({{{a, b}}, {{c, d}}}, {1, 0}), {0, 1});
  EXPECT_OK(comm::Validate(pairs.sequence));
  EXPECT_THAT(pairs.documents, Each(2));
  EXPECT_THAT(pairs.examples, ElementsAre(1, 0));
  EXPECT_THAT(pairs.sequence.lengths, ElementsAre(3, 2, 2, 1));
  EXPECT_THAT(List(pairs.sequence.ids_T), ElementsAre(4, 5, 6, 7, 8, 1, 2, 3));
  EXPECT_THAT(List(pairs.sequence.identity_T),
              ElementsAre(one, one + 1, one + 2, one + second, one + second + 1, 0, 1, second));
  const std::vector<Example> feedback = {{{a, b}, true}, {{c, d}, false}};
  const MicroBatch answers = MakeMicroBatch(StepOf(feedback, {0, 1}), {0, 1}),
                   mismatched = MakeMicroBatch(StepOf(feedback, {0, 1}), {1}, Part::kMismatched);
  EXPECT_THAT(answers.documents, Each(1));
  EXPECT_THAT(answers.desirable, ElementsAre(true, false));
  EXPECT_THAT(List(answers.sequence.ids_T), ElementsAre(1, 2, 4, 5, 6));
  EXPECT_THAT(List(mismatched.sequence.ids_T), ElementsAre(7, 8));
  EXPECT_THAT(List(mismatched.sequence.identity_T), ElementsAre(one + second, one + second + 1));
  EXPECT_THAT(mismatched.desirable, ElementsAre(false));
}

// A packed row of neat_packing has one document per text; a packed row of packing is one document
// whose positions restart.
TEST(MicroBatchTest, TakesRows) {
  const Document a{{1, 2}, {-100, 2}}, b{{3}, {3}}, c{{4, 5, 6}, {-100, 5, 6}},
      joined{{7, 8, 9, 0}, {-100, 8, 9, -100}, {0, 1, 0, 0}};
  const int64_t one = int64_t{1} << 32;
  const RowPadding padding{.count = 2};
  const MicroBatch rows = MakeMicroBatch(
      StepOf({{.documents = {a, b, c}, .padding = padding}, {.documents = {b}, .padding = padding}},
             {0, 1}),
      {0, 1});
  EXPECT_OK(comm::Validate(rows.sequence));
  EXPECT_THAT(rows.documents, ElementsAre(3, 1));
  EXPECT_THAT(rows.sequence.lengths, ElementsAre(2, 1, 3, 1));
  EXPECT_THAT(List(rows.sequence.identity_T), ElementsAre(0, 1, 2, 3, 4, 5, one));
  const MicroBatch row = MakeMicroBatch(StepOf({{.documents = {joined}}}, {0}), {0});
  EXPECT_THAT(row.sequence.lengths, ElementsAre(4));
  EXPECT_THAT(List(row.sequence.positions_T), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(List(row.sequence.targets_T), ElementsAre(8, 9, -100, -100));
}

constexpr int32_t kNone = kNotLearnt;

TEST(PrefixesTest, AreTheCommonFirstTokensWithoutLabels) {
  const Document a{{1, 2, 3, 4, 5}, {kNone, kNone, kNone, 4, 5}},
      b{{1, 2, 3, 6}, {kNone, kNone, kNone, 6}};
  // Three tokens are equal, but the last of them predicts different tokens.
  EXPECT_EQ(SharedTokens({&a, &b}), 2);
  EXPECT_EQ(SharedTokens({&a, &b, &a}), 2);
  EXPECT_EQ(SharedTokens({&a, &a}), 2);  // a label is never shared
  EXPECT_EQ(SharedTokens({&a}), 0);
  EXPECT_EQ(SharedTokens({}), 0);
  const Document sooner{{1, 2, 3, 6}, {kNone, 2, kNone, 6}},
      other{{1, 7, 3}, {kNone, kNone, kNone}}, nothing,
      moved{{1, 2, 3, 6}, {kNone, kNone, kNone, kNone}, {0, 1, 5, 6}},
      at_place{{1, 2, 3}, {kNone, kNone, kNone}, {0, 1, 2}};
  EXPECT_EQ(SharedTokens({&a, &sooner}), 0);
  EXPECT_EQ(SharedTokens({&sooner, &a}), 0);
  EXPECT_EQ(SharedTokens({&a, &other}), 0);
  EXPECT_EQ(SharedTokens({&a, &nothing}), 0);
  EXPECT_EQ(SharedTokens({&a, &moved}), 1);
  EXPECT_EQ(SharedTokens({&a, &at_place}), 2);
}

TEST(MicroBatchTest, HasSharedPrefixesOnce) {
  const Document a{{1, 2, 3, 4, 5}, {kNone, kNone, kNone, 4, 5}},
      b{{1, 2, 3, 6}, {kNone, kNone, kNone, 6}}, c{{7, 8}, {kNone, 8}}, d{{9}, {kNone}},
      e{{1, 2, 3}, {kNone, kNone, kNone}, {4, 5, 6}}, f{{1, 2}, {kNone, kNone}, {4, 5}};
  const int64_t one = int64_t{1} << 32, second = int64_t{1} << 31;
  const StepExamples step = StepOf({{{a, b}}, {{c, d}}, {{e, f}}}, {0, 1, 2});
  const MicroBatch shared = MakeMicroBatch(step, {0, 1, 2}, Part::kTrained, true);
  const comm::Sequence& sequence = shared.sequence;
  EXPECT_OK(comm::Validate(sequence));
  EXPECT_THAT(shared.documents, Each(2));
  EXPECT_THAT(sequence.lengths, ElementsAre(2, 3, 2, 2, 1, 1, 2, 1));
  EXPECT_THAT(sequence.parents,
              ElementsAre(comm::Parent{}, comm::Parent{0, 2}, comm::Parent{0, 2}, comm::Parent{},
                          comm::Parent{}, comm::Parent{}, comm::Parent{5, 1}, comm::Parent{5, 1}));
  EXPECT_THAT(comm::OwnDocuments(sequence), ElementsAre(1, 2, 3, 4, 6, 7));
  EXPECT_THAT(List(sequence.ids_T), ElementsAre(1, 2, 3, 4, 5, 3, 6, 7, 8, 9, 1, 2, 3, 2));
  EXPECT_THAT(List(sequence.positions_T), ElementsAre(0, 1, 2, 3, 4, 2, 3, 0, 1, 0, 4, 5, 6, 5));
  EXPECT_THAT(List(shared.labels_T), ElementsAre(kNone, kNone, kNone, 4, 5, kNone, 6, kNone, 8,
                                                 kNone, kNone, kNone, kNone, kNone));
  EXPECT_THAT(List(sequence.targets_T), ElementsAre(kNone, kNone, 4, 5, kNone, 6, kNone, 8, kNone,
                                                    kNone, kNone, kNone, kNone, kNone));
  EXPECT_THAT(List(sequence.identity_T),
              ElementsAre(0, 1, 2, 3, 4, second + 2, second + 3, one, one + 1, one + second,
                          2 * one, 2 * one + 1, 2 * one + 2, 2 * one + second + 1));
  // If the documents have no common prefix, the micro-batch is the same as without sharing.
  const MicroBatch apart = MakeMicroBatch(step, {1}, Part::kTrained, true);
  EXPECT_TRUE(apart.sequence.parents.empty());
  EXPECT_THAT(List(apart.sequence.ids_T), ElementsAre(7, 8, 9));
}

// Examples with one document each and a common prompt (a family) are assigned to the same
// micro-batch.
TEST(StepTest, FamiliesStayTogether) {
  const auto answer = [](int32_t prompt, int64_t asked, int64_t tokens) {
    Document document{std::vector<int32_t>(asked, prompt), std::vector<int32_t>(asked, kNone)};
    for (int64_t t = 0; t < tokens; ++t) {
      document.ids.push_back(prompt + 1);
      document.labels.push_back(prompt + 1);
    }
    return Example{.documents = {document}};
  };
  // Two families of three answers to prompts of 11 and 6 tokens, alternating, and a single example.
  StepExamples step =
      StepOf({answer(10, 11, 2), answer(20, 6, 1), answer(10, 11, 4), answer(20, 6, 2),
              answer(10, 11, 3), answer(20, 6, 3), answer(30, 2, 2)},
             {0, 1, 2, 3, 4, 5, 6});
  step.families = {7, 9, 7, 9, 7, 9, -1};
  PackOptions packing{.micro_batch_tokens = 26, .share_prefixes = true};
  // The first family has 10 + 3 + 5 + 4 = 22 tokens, the second 5 + 2 + 3 + 4 = 14, the single
  // example 4.
  EXPECT_THAT(PackExamples(step, packing),
              ElementsAre(ElementsAre(ElementsAre(0, 2, 4, 6), ElementsAre(1, 3, 5))));
  packing.dp = 2;
  EXPECT_THAT(PackExamples(step, packing),
              ElementsAre(ElementsAre(ElementsAre(0, 2, 4)), ElementsAre(ElementsAre(1, 3, 5, 6))));
  const Step made = MakeStep(step, packing, 1);
  ASSERT_EQ(made.micro_batches.size(), 1);
  EXPECT_THAT(made.micro_batches[0].sequence.lengths, ElementsAre(5, 2, 3, 4, 4));
  EXPECT_THAT(made.micro_batches[0].documents, Each(1));
  EXPECT_EQ(made.tokens, 13 + 15 + 14 + 7 + 8 + 9 + 4);  // without sharing
  EXPECT_THAT(made.lengths, ElementsAre(13, 7, 15, 8, 14, 9, 4));
  // On two ranks, splitting these families would not reduce the highest cost. If there is only one
  // family, it is split: each rank gets two answers.
  const StepExamples one = StepOf(
      {answer(10, 3, 20), answer(10, 3, 21), answer(10, 3, 22), answer(10, 3, 23)}, {0, 1, 2, 3});
  StepExamples group = one;
  group.families = {1, 1, 1, 1};
  packing = {.dp = 2, .micro_batch_tokens = 1000, .share_prefixes = true};
  EXPECT_THAT(PackExamples(group, packing),
              ElementsAre(ElementsAre(ElementsAre(0, 1)), ElementsAre(ElementsAre(2, 3))));
  packing.dp = 1;
  EXPECT_THAT(PackExamples(group, packing), ElementsAre(ElementsAre(ElementsAre(0, 1, 2, 3))));
  // A family that is longer than a micro-batch is split: each micro-batch has as many answers as
  // fit next to the prompt, which is repeated.
  packing = {.micro_batch_tokens = 18, .share_prefixes = true};
  EXPECT_THAT(PackExamples(step, packing),
              ElementsAre(ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3, 5), ElementsAre(4, 6))));
  packing.micro_batch_tokens = 1;
  EXPECT_THAT(
      PackExamples(step, packing),
      ElementsAre(ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(3),
                              ElementsAre(4), ElementsAre(5), ElementsAre(6))));
  // Regroup makes one micro-batch of each list of examples that the caller gives. The first list
  // has two examples of each family, whose prompts are stored once (10 and 5 tokens); the second
  // has one of each family, so nothing is shared.
  packing.micro_batch_tokens = 26;
  Step regrouped = MakeStep(step, packing, 0);
  ASSERT_OK(Regroup({{0, 1, 3, 2}, {4, 5, 6}}, 1, 0, regrouped));
  EXPECT_THAT(regrouped.micro_batches[0].sequence.lengths, ElementsAre(10, 3, 5, 2, 3, 5));
  EXPECT_THAT(regrouped.micro_batches[1].sequence.lengths, ElementsAre(14, 9, 4));
  packing.share_prefixes = false;
  EXPECT_TRUE(MakeStep(step, packing, 0).micro_batches[0].sequence.parents.empty());
}

// A step has each example of the batch once over all dp ranks, for any dp.
TEST(StepSourceTest, RanksShareTheStep) {
  auto dataset = std::make_shared<std::vector<Example>>();
  for (int32_t i = 0; i < 11; ++i)
    dataset->push_back({.documents = {{std::vector<int32_t>(1 + i * 7 % 5, i),
                                       std::vector<int32_t>(1 + i * 7 % 5, i)}}});
  const auto make = [&](int64_t dp, int64_t rank) {
    return *StepsOf(dataset, {.examples = 11, .examples_per_step = 4, .seed = 1, .total_steps = 6},
                    {.dp = dp, .micro_batch_tokens = 6}, rank);
  };
  for (const int64_t dp : {1, 2, 3}) {
    const auto batches =
        *StepBatches::Create({.examples = 11, .examples_per_step = 4, .seed = 1, .total_steps = 6});
    std::vector<std::unique_ptr<StepSource>> sources;
    for (int64_t rank = 0; rank < dp; ++rank) sources.push_back(make(dp, rank));
    for (int step = 0; step < 6; ++step) {
      Ints wanted = (*batches->Next())->examples, got;
      int64_t tokens = 0, said = 0;
      double squares = 0, said_squares = 0;
      for (const auto& source : sources) {
        ASSERT_OK_AND_ASSIGN(const std::optional<Step> mine, source->Next());
        EXPECT_EQ(mine->batch.examples, wanted);
        said = mine->tokens;
        said_squares = mine->squares;
        for (const MicroBatch& micro_batch : mine->micro_batches) {
          got.insert(got.end(), micro_batch.examples.begin(), micro_batch.examples.end());
          for (size_t i = 0; i < micro_batch.places.size(); ++i)
            EXPECT_EQ(micro_batch.examples[i], wanted[micro_batch.places[i]]);
          tokens += micro_batch.sequence.ids_T.numel();
          for (const int64_t length : micro_batch.sequence.lengths)
            squares += static_cast<double>(length * length);
          EXPECT_EQ(micro_batch.sequence.ids_T[0].item<int64_t>(), micro_batch.examples[0]);
        }
      }
      EXPECT_EQ(tokens, said);
      EXPECT_EQ(squares, said_squares);
      std::sort(wanted.begin(), wanted.end());
      std::sort(got.begin(), got.end());
      EXPECT_EQ(got, wanted);
    }
    for (const auto& source : sources) EXPECT_FALSE((*source->Next()).has_value());
  }
  const auto source = make(2, 1);
  source->Next().IgnoreError();
  const auto resumed = make(2, 1);
  ASSERT_OK(resumed->LoadState(source->SaveState()));
  EXPECT_EQ((*resumed->Next())->batch.examples, (*source->Next())->batch.examples);
  const StepBatchesOptions ten{.examples = 10, .examples_per_step = 4},
      eleven{.examples = 11, .examples_per_step = 4};
  EXPECT_THAT(StepsOf(dataset, ten, {.micro_batch_tokens = 6}, 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("of 10 examples over a data set of 11")));
  EXPECT_THAT(StepsOf(dataset, eleven, {.dp = 2, .micro_batch_tokens = 6}, 2),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no dp rank 2 of 2")));
  EXPECT_THAT(StepsOf(dataset, eleven, {}, 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("micro_batch_tokens must be at least 1")));
}

// KTO: over all ranks, answers and mismatched documents each occur once per step, in separate
// micro-batches of at most micro_batch_tokens.
TEST(StepSourceTest, PacksMismatchedDocumentsApart) {
  auto dataset = std::make_shared<std::vector<Example>>();
  const auto document = [](int32_t length, int32_t id) {
    return Document{std::vector<int32_t>(length, id), std::vector<int32_t>(length, id)};
  };
  for (int32_t i = 0; i < 9; ++i)
    dataset->push_back(
        {{document(1 + i * 7 % 5, i), document(1 + i * 3 % 4, 100 + i)}, i % 2 == 0});
  for (const int64_t dp : {1, 2, 4}) {
    Ints answers, mismatched;
    int64_t tokens = 0, said = 0;
    for (int64_t rank = 0; rank < dp; ++rank) {
      const auto source = *StepsOf(dataset, {.examples = 9, .examples_per_step = 9},
                                   {.dp = dp, .micro_batch_tokens = 5}, rank);
      const Step step = **source->Next();
      for (const MicroBatch& batch : step.micro_batches) {
        answers.insert(answers.end(), batch.places.begin(), batch.places.end());
        tokens += batch.sequence.ids_T.numel();
        EXPECT_LE(batch.sequence.ids_T.numel(), 5);
      }
      for (const MicroBatch& batch : step.mismatched) {
        mismatched.insert(mismatched.end(), batch.places.begin(), batch.places.end());
        EXPECT_LE(batch.sequence.ids_T.numel(), 5);
        EXPECT_EQ(batch.sequence.ids_T[0].item<int64_t>(), 100 + batch.examples[0]);
        for (size_t i = 0; i < batch.examples.size(); ++i)
          EXPECT_EQ(batch.desirable[i], batch.examples[i] % 2 == 0);
      }
      said = step.tokens;
    }
    EXPECT_EQ(tokens, said);
    for (Ints* places : {&answers, &mismatched}) {
      std::sort(places->begin(), places->end());
      EXPECT_THAT(*places, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
    }
  }
  dataset->push_back({{document(1, 1)}});
  const StepBatchesOptions ten{.examples = 10, .examples_per_step = 4};
  EXPECT_THROW((void)StepsOf(dataset, ten, {.micro_batch_tokens = 6}, 0), c10::Error);
}

}  // namespace
}  // namespace moonring::data
