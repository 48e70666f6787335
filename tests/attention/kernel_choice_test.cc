// The choice between a GPU's attention kernels: how timings lead to a choice, its text form, its
// agreement over all ranks, and its effect on calls. Kernels and clock are replaced by CPU
// implementations.

#include "attention/kernels/kernel_choice.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include "attention/kernels/cuda_varlen_attention.h"
#include "attention/kernels/kernel_timing.h"
#include "attention/kernels/looped_varlen_attention.h"
#include "attention/kernels/reference_block_attention.h"
#include "attention/strategy/strategies.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/cuda_stand_ins.h"
#include "tests/attention/problem.h"
#include "tests/testing/all_close.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::attention {
namespace {

using moonring::testing::RelativeError;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kNever = KernelChoice::kNever;

TEST(KernelChoiceTest, FromTheLengthOnWhereCudnnIsFaster) {
  const auto chosen = [](const std::vector<KernelTiming>& timings) {
    return ChooseKernels(timings, {}).cudnn_from;
  };
  EXPECT_EQ(chosen({}), kNever);
  EXPECT_EQ(chosen({{2048, 1.0, 1.2}, {8192, 10.0, 8.0}, {32768, 100.0, 70.0}}), 8192);
  EXPECT_EQ(chosen({{32768, 100.0, 70.0}, {2048, 1.0, 0.5}, {8192, 10.0, 8.0}}), 2048);
  EXPECT_EQ(chosen({{2048, 1.0, 0.5}, {8192, 10.0, 11.0}, {32768, 100.0, 70.0}}), 32768)
      << "faster at 2k, but not from there on";
  EXPECT_EQ(chosen({{2048, 1.0, 0.5}, {8192, 10.0, 11.0}}), kNever);
  EXPECT_EQ(chosen({{2048, 1.0, 0.99}}), kNever) << "noise";
  EXPECT_EQ(chosen({{2048, 1.0, 0.5}, {8192, 10.0, std::nullopt}}), kNever) << "refused";
}

// From these timings of an H100 (32 heads of dim 128), computes the length from which building
// cuDNN's plan, once for all layers, is worthwhile.
TEST(KernelChoiceTest, WhereALengthPaysForItsPlans) {
  const std::vector<KernelTiming> timings = {{2048, 0.683e-3, 0.400e-3, 0.107},
                                             {8192, 6.529e-3, 3.553e-3, 0.091},
                                             {32768, 92.0e-3, 53.3e-3, 0.091}};
  const auto chosen = [&](int64_t layers, int64_t often) {
    return ToString(ChooseKernels(timings, {layers, often}));
  };
  EXPECT_EQ(chosen(32, 32768), "flash<8192<=cudnn") << "0.095 s saved";
  EXPECT_EQ(chosen(8, 65536), "flash<32768<=cudnn");
  EXPECT_EQ(chosen(8, 16384), "flash<32768<=cudnn, cudnn=16384");
  EXPECT_EQ(chosen(1, 2048), "flash, cudnn=2048");
  EXPECT_EQ(chosen(1, 2000), "flash");
  EXPECT_EQ(chosen(1000, 2048), "flash<2048<=cudnn");
}

TEST(KernelChoiceTest, IsWrittenAndRead) {
  for (const KernelChoice& choice : {KernelChoice{}, KernelChoice{0}, KernelChoice{8192},
                                     KernelChoice{8192, 4096}, KernelChoice{kNever, 4096}}) {
    ASSERT_OK_AND_ASSIGN(const KernelChoice read, ParseKernelChoice(ToString(choice)));
    EXPECT_EQ(read, choice) << ToString(choice);
  }
  EXPECT_EQ(ToString({8192}), "flash<8192<=cudnn");
  for (const char* text : {"", "auto", "flash<8192", "flash<<=cudnn", "flash<0<=cudnn",
                           "flash<-5<=cudnn", "flash<8k<=cudnn", "flash, cudnn=", "flash, cudnn=0",
                           "flash,cudnn=8", "cudnn, cudnn=8", "cuDNN", "cudnn<8192<=flash"}) {
    EXPECT_THAT(ParseKernelChoice(text).status().message(), HasSubstr("expected flash, cudnn, or"))
        << text;
  }
}

TEST(KernelChoiceTest, EveryRankTakesTheFirst) {
  testing::ConnectedRanks ranks(3);
  ranks.Run([](std::shared_ptr<comm::World> world) {
    KernelChoice choice{1000 + world->rank(), 500 + world->rank()};
    ASSERT_OK(TakeFirstRanks(*world->communicator(), choice));
    EXPECT_EQ(choice, (KernelChoice{1000, 500}));
  });
}

// Records the names of the fused attention operators that run while it is alive.
class Watch {
 public:
  Watch() {
    called().clear();
    handle_ = at::addGlobalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& function)
                                       -> std::unique_ptr<at::ObserverContext> {
          const std::string name = function.name();
          if (name.find("attention") != std::string::npos) called().push_back(name);
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
  }
  ~Watch() { at::removeCallback(handle_); }
  static std::vector<std::string>& called() {
    thread_local std::vector<std::string> names;
    return names;
  }

 private:
  at::CallbackHandle handle_;
};

const char kFlash[] = "aten::_flash_attention_forward",
           kFlashBack[] = "aten::_flash_attention_backward",
           kCudnn[] = "aten::_scaled_dot_product_cudnn_attention",
           kCudnnBack[] = "aten::_scaled_dot_product_cudnn_attention_backward";

class KernelsTest : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(7); }
  torch::Library kernels_ = CudaStandIns();
};

VarlenTiles Documents(const std::vector<int64_t>& lengths, TileKind kind, int64_t window = 0,
                      int64_t head_dim = 16, int64_t value_dim = 16) {
  VarlenTiles tiles{.query_offsets = {0}, .kind = kind, .score = {0.25}, .window = window};
  for (const int64_t length : lengths)
    tiles.query_offsets.push_back(tiles.query_offsets.back() + length);
  tiles.key_offsets = tiles.query_offsets;
  const auto random = [&](int64_t heads, int64_t dim) {
    return at::randn({tiles.query_offsets.back(), heads, dim}, at::kDouble).to(at::kBFloat16);
  };
  tiles.q_MHD = random(6, head_dim);
  tiles.k_NKD = random(2, head_dim);
  tiles.v_NKD = random(2, value_dim);
  return tiles;
}

std::vector<at::Tensor> RunBoth(const VarlenAttention& attention, const VarlenTiles& tiles,
                                const at::Tensor& dout) {
  const PartialAttention part = attention.Forward(tiles);
  const TileGradients back = attention.Backward(tiles, dout, part.out_MHD, part.lse_MH);
  return {part.out_MHD, part.lse_MH, back.dq_MHD, back.dk_NKD, back.dv_NKD};
}

// Long documents are computed by cuDNN, and runs of other documents by flash attention. Both are
// replaced by fp64 implementations that round once to bf16: bound 4e-3.
TEST_F(KernelsTest, LongDocumentsGoToCudnnAndRunsOfOthersToFlash) {
  for (const TileKind kind : {TileKind::kBand, TileKind::kCausal, TileKind::kFull}) {
    const VarlenTiles tiles = Documents({5, 33, 70, 65, 1, 90}, kind);
    const at::Tensor dout = at::randn_like(tiles.q_MHD);
    const Watch watch;
    const auto got = RunBoth(CudaVarlenAttention(KernelChoice{64}), tiles, dout);
    EXPECT_THAT(Watch::called(), ElementsAre(kFlash, kCudnn, kCudnn, kFlash, kCudnn, kFlashBack,
                                             kCudnnBack, kCudnnBack, kFlashBack, kCudnnBack));
    const auto want = RunBoth(CudaVarlenAttention(), tiles, dout);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(RelativeError(got[i], want[i], 4e-3)) << i;
      EXPECT_EQ(got[i].scalar_type(), want[i].scalar_type());
    }
  }
}

// cuDNN gets equal head dims: inputs are padded to the greater one, and results have the original
// ones.
TEST_F(KernelsTest, CudnnTakesTwoHeadDims) {
  for (const auto& [head_dim, value_dim] : {std::pair(24, 16), std::pair(12, 32)}) {
    const VarlenTiles tiles = Documents({33, 70}, TileKind::kBand, 0, head_dim, value_dim);
    const at::Tensor dout = at::randn(OutShape(tiles.q_MHD, tiles.v_NKD), at::kBFloat16);
    const Watch watch;
    const auto got = RunBoth(CudaVarlenAttention(KernelChoice{64}), tiles, dout);
    EXPECT_THAT(Watch::called(), ElementsAre(kFlash, kCudnn, kFlashBack, kCudnnBack));
    const auto want = RunBoth(CudaVarlenAttention(), tiles, dout);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(RelativeError(got[i], want[i], 4e-3)) << i;
    }
    EXPECT_EQ(got[4].sizes(), tiles.v_NKD.sizes());
  }
}

TEST_F(KernelsTest, WhatCudnnDoesNotTakeGoesToFlash) {
  const auto called = [](const VarlenTiles& tiles) {
    const Watch watch;
    RunBoth(CudaVarlenAttention(KernelChoice{0}), tiles, at::randn_like(tiles.q_MHD));
    return Watch::called();
  };
  EXPECT_THAT(called(Documents({70, 80}, TileKind::kBand, 60)), ElementsAre(kFlash, kFlashBack));
  EXPECT_THAT(called(Documents({70}, TileKind::kBand, 70)), ElementsAre(kCudnn, kCudnnBack))
      << "a window that sees all";
  EXPECT_THAT(called(Documents({70}, TileKind::kWindowEdge)), ElementsAre(kFlash, kFlashBack));
  EXPECT_THAT(called(Documents({1}, TileKind::kBand)), ElementsAre(kFlash, kFlashBack))
      << "one key";
  VarlenTiles clipped = Documents({70}, TileKind::kBand);
  clipped.q_MHD = clipped.q_MHD.narrow(0, 0, 30);
  clipped.query_offsets = {0, 30};
  EXPECT_THAT(called(clipped), ElementsAre(kFlash, kFlashBack)) << "not from the top left";
  at::globalContext().setDeterministicAlgorithms(true, false);
  const auto deterministic = called(Documents({70}, TileKind::kBand));
  at::globalContext().setDeterministicAlgorithms(false, false);
  EXPECT_THAT(deterministic, ElementsAre(kFlash, kFlashBack));
}

// The most frequent document length is computed by cuDNN too, although it is short.
TEST_F(KernelsTest, OneLengthMore) {
  const Watch watch;
  const VarlenTiles tiles = Documents({33, 70, 40, 33}, TileKind::kBand);
  RunBoth(CudaVarlenAttention(KernelChoice{64, 33}), tiles, at::randn_like(tiles.q_MHD));
  EXPECT_THAT(Watch::called(), ElementsAre(kCudnn, kCudnn, kFlash, kCudnn, kCudnnBack, kCudnnBack,
                                           kFlashBack, kCudnnBack));
}

// Without a mask, numbers of keys that fill half of a cuDNN tile are left to flash attention.
TEST_F(KernelsTest, KeysOfHalfATileGoToFlash) {
  for (const int64_t keys : {64, 192, 320}) {
    const Watch watch;
    const VarlenTiles tiles = Documents({keys}, TileKind::kFull);
    RunBoth(CudaVarlenAttention(KernelChoice{0}), tiles, at::randn_like(tiles.q_MHD));
    EXPECT_THAT(Watch::called(), ElementsAre(kFlash, kFlashBack)) << keys;
  }
}

// Flash attention takes over calls that cuDNN refuses in the middle of a run.
TEST_F(KernelsTest, FlashDoesWhatCudnnRefuses) {
  const VarlenTiles tiles = Documents({70, 33}, TileKind::kBand);
  const at::Tensor dout = at::randn_like(tiles.q_MHD);
  const auto want = RunBoth(CudaVarlenAttention(), tiles, dout);
  torch::Library refuses(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  refuses.impl("_scaled_dot_product_cudnn_attention",
               [](const at::Tensor& q, const at::Tensor&, const at::Tensor&,
                  const std::optional<at::Tensor>&, bool, double, bool, bool, std::optional<double>)
                   -> std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt,
                                 c10::SymInt, at::Tensor, at::Tensor, at::Tensor> {
                 TORCH_CHECK(false, "no execution plans for ", q.sizes());
               });
  const auto got = RunBoth(CudaVarlenAttention(KernelChoice{64}), tiles, dout);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(RelativeError(got[i], want[i], 4e-3)) << i;
}

// A long document after many short ones becomes a separate call: in a joint call only a fiftieth of
// the grid's blocks would have work. A grid of few blocks is not split.
TEST_F(KernelsTest, ALongDocumentAndManyShortOnesAreTwoCalls) {
  std::vector<int64_t> lengths(300, 3);
  lengths.push_back(2400);
  const VarlenTiles tiles = Documents(lengths, TileKind::kCausal);
  const at::Tensor dout = at::randn_like(tiles.q_MHD);
  const Watch watch;
  const auto got = RunBoth(CudaVarlenAttention(), tiles, dout);
  EXPECT_THAT(Watch::called(), ElementsAre(kFlash, kFlash, kFlashBack, kFlashBack));
  const LoopedVarlenAttention looped(std::make_shared<ReferenceBlockAttention>());
  const auto want = RunBoth(looped, tiles, dout);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(RelativeError(got[i], want[i], 8e-3)) << i;
  Watch::called().clear();
  const VarlenTiles few = Documents({3, 3, 3, 3, 3, 3, 3, 3, 900}, TileKind::kBand);
  RunBoth(CudaVarlenAttention(), few, at::randn_like(few.q_MHD));
  EXPECT_THAT(Watch::called(), ElementsAre(kFlash, kFlashBack));
}

// Whole strategies, including those that exchange keys and those with windows, give the same
// results with a choice of kernels as with flash attention only.
TEST_F(KernelsTest, StrategiesOverAChoice) {
  const TileRunners runners = [](const at::Device&) {
    return ChosenTileRunner(at::Device(at::kCUDA, 0), {100});
  };
  for (const int64_t window : {0, 50}) {
    const Problem problem = RandomProblem({300, 33, 0, 120, 5}, {9, 3, 16}, at::kBFloat16, window);
    const Solution want = Written(problem);
    for (const std::string name : {"dense", "ulysses", "all-gather", "zigzag-ring"}) {
      const Solution got = SolveAll({.name = name}, name == "dense" ? 1 : 2, {problem}, runners)[0];
      for (const auto member : kMembers)
        EXPECT_TRUE(RelativeError(got.*member, want.*member, 8e-3)) << name;
    }
  }
}

// ---- measuring

// A simulated stopwatch that returns these times for the kernels.
Stopwatch Says(double flash, double cudnn) {
  return [=](const std::function<void()>& work) {
    const Watch watch;
    work();
    for (const std::string& name : Watch::called()) {
      if (name == kCudnn) return Laps{cudnn + 0.25, cudnn};
    }
    return Laps{flash + 100, flash};
  };
}

TEST_F(KernelsTest, AreTimedAtEachLength) {
  const KernelShape shape{4, 2, 16};
  const auto timings = TimeKernels(shape, {96, 64}, at::kCPU, Says(2.0, 1.0));
  ASSERT_EQ(timings.size(), 2);
  EXPECT_EQ(timings[0].length, 64);
  EXPECT_EQ(timings[1].flash_seconds, 2.0);
  EXPECT_EQ(timings[1].cudnn_seconds, 1.0);
  EXPECT_EQ(timings[1].build_seconds, 0.25);
  EXPECT_EQ(ChooseKernels(timings, {}).cudnn_from, 64);
  EXPECT_EQ(ChooseKernels(TimeKernels(shape, {96, 64}, at::kCPU, Says(1.0, 2.0)), {}).cudnn_from,
            kNever);
}

TEST_F(KernelsTest, ThatRefuseOrAreWrongAreNotChosen) {
  const auto chosen = [](const KernelShape& shape) {
    return ChooseKernels(TimeKernels(shape, {64}, at::kCPU, Says(2.0, 1.0)), {}).cudnn_from;
  };
  EXPECT_EQ(chosen({4, 2, 16}), 64);
  EXPECT_EQ(chosen({4, 2, 20}), kNever) << "a head dim that it does not take";
  EXPECT_FALSE(CudnnTakes(KernelShape{4, 2, 20}));
  {
    torch::Library refuses(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
    refuses.impl(
        "_scaled_dot_product_cudnn_attention",
        [](const at::Tensor& q, const at::Tensor&, const at::Tensor&,
           const std::optional<at::Tensor>&, bool, double, bool, bool, std::optional<double>)
            -> std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt,
                          at::Tensor, at::Tensor, at::Tensor> {
          TORCH_CHECK(false, "no engine for ", q.sizes());
        });
    EXPECT_EQ(chosen({4, 2, 16}), kNever);
  }
  {
    torch::Library wrong(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
    wrong.impl("_scaled_dot_product_cudnn_attention_backward",
               [](const at::Tensor&, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                  const at::Tensor&, const at::Tensor&, const at::Tensor&, c10::SymInt, c10::SymInt,
                  double, bool, std::optional<double>) {
                 return std::tuple(at::zeros_like(q), at::zeros_like(k), at::zeros_like(v));
               });
    EXPECT_EQ(chosen({4, 2, 16}), kNever) << "zeros are no gradients";
  }
}

TEST(KernelTimingTest, AsFarAsDocumentsReach) {
  EXPECT_THAT(LengthsToTime(2047), IsEmpty());
  EXPECT_THAT(LengthsToTime(9000), ElementsAre(2048, 8192));
  EXPECT_THAT(LengthsToTime(1 << 20), ElementsAre(2048, 8192, 32768));
}

}  // namespace
}  // namespace moonring::attention
