#include "kernels/delta_scan.h"

#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/fibers.h"
#include "tests/kernels/cases.h"
#include "tests/testing/all_close.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;

struct ScanCase {
  std::vector<int64_t> round_begin;  // the first chunk of each round, then N
  int64_t documents = 1, heads = 2, keys = 128, width = 16;
  bool decay_by_channel = false, written = true, added = false;
};

struct Made {
  at::Tensor written, state, states;
};

DeltaScanTensors ScanInputs(const ScanCase& one) {
  at::manual_seed(17);
  const int64_t chunks = one.round_begin.back();
  const auto random = [&](at::IntArrayRef sizes) { return at::randn(sizes); };
  return {.a_NHCK = random({chunks, one.heads, 64, one.keys}) * 0.1,
          .b_NHCK = random({chunks, one.heads, 64, one.keys}) * 0.1,
          .written_NHCV = one.written ? random({chunks, one.heads, 64, one.width}) : at::Tensor(),
          .added_NHVK = one.added ? random({chunks, one.heads, one.width, one.keys}) : at::Tensor(),
          // A view, like the last row of cumulative sums.
          .decay_NH1X =
              at::rand({chunks, one.heads, 3, one.decay_by_channel ? one.keys : 1}).narrow(2, 2, 1),
          .state_DHVK = random({one.documents, one.heads, one.width, one.keys}),
          .states_NHVK = {},
          .round_begin = at::tensor(one.round_begin, at::kLong)};
}

// Rounds to TF32 (10 explicit bits): to nearest, ties away from zero.
at::Tensor RoundedToTf32(const at::Tensor& x) {
  return x.to(at::kFloat)
      .view(at::kInt)
      .add(0x1000)
      .bitwise_and(~0x1FFF)
      .view(at::kFloat)
      .to(at::kDouble);
}

// Computes the definition in fp64. With `tf32`, the operands of products are rounded.
Made WantedScan(const ScanCase& one, const DeltaScanTensors& in, bool backward, bool tf32 = false) {
  const auto operand = [tf32](const at::Tensor& x) { return tf32 ? RoundedToTf32(x) : x; };
  const auto wide = [](const at::Tensor& x) { return x.defined() ? x.to(at::kDouble) : x; };
  const at::Tensor a = wide(in.a_NHCK), b = wide(in.b_NHCK), decay = wide(in.decay_NH1X),
                   added = wide(in.added_NHVK);
  Made made{in.written_NHCV.defined() ? wide(in.written_NHCV).clone() : at::Tensor(),
            wide(in.state_DHVK).clone(),
            at::zeros({one.round_begin.back(), one.heads, one.width, one.keys}, at::kDouble)};
  const auto rounds = static_cast<int64_t>(one.round_begin.size()) - 1;
  for (int64_t step = 0; step < rounds; ++step) {
    const int64_t round = backward ? rounds - 1 - step : step;
    for (int64_t chunk = one.round_begin[round]; chunk < one.round_begin[round + 1]; ++chunk) {
      at::Tensor m = made.state[chunk - one.round_begin[round]];
      made.states[chunk].copy_(m);
      at::Tensor x = -at::matmul(operand(a[chunk]), operand(m).mT());
      if (made.written.defined()) made.written[chunk].copy_(x = x + made.written[chunk]);
      m.mul_(decay[chunk]).add_(at::matmul(operand(x).mT(), operand(b[chunk])));
      if (added.defined()) m.add_(added[chunk]);
    }
  }
  return made;
}

Made CallScan(const ScanCase& one, const DeltaScanTensors& inputs, bool backward,
              bool tf32 = false) {
  DeltaScanTensors tensors = inputs;
  if (tensors.written_NHCV.defined()) tensors.written_NHCV = tensors.written_NHCV.clone();
  tensors.state_DHVK = tensors.state_DHVK.clone();
  tensors.states_NHVK = at::full({one.round_begin.back(), one.heads, one.width, one.keys}, NAN);
  DeltaScan(tensors, backward, tf32);
  return {tensors.written_NHCV, tensors.state_DHVK, tensors.states_NHVK};
}

// Bound for sums of hundreds of terms in another order, over several chunks.
constexpr double kScanBound = 1e-6;

TEST(DeltaScanTest, IsTheDefinition) {
  const std::vector<ScanCase> cases = {
      {.round_begin = {0, 1}},
      {.round_begin = {0, 1, 2, 3}, .added = true},
      // Documents of three, two, one, one and zero chunks.
      {.round_begin = {0, 4, 6, 7}, .documents = 5, .heads = 1, .decay_by_channel = true},
      {.round_begin = {0, 2, 3}, .documents = 2, .keys = 8, .width = 6, .written = false},
      {.round_begin = {0, 2, 3},
       .documents = 2,
       .keys = 7,
       .width = 5,
       .decay_by_channel = true,
       .added = true},
      {.round_begin = {0, 1, 2}, .heads = 1, .keys = 100, .width = 40},
      {.round_begin = {0, 1, 2}, .heads = 1, .keys = 192, .width = 33, .decay_by_channel = true},
      {.round_begin = {0, 1, 2},
       .heads = 1,
       .keys = 256,
       .width = 64,
       .written = false,
       .added = true},
      {.round_begin = {0, 1, 2}, .heads = 1, .keys = 131, .width = 3, .added = true},
  };
  for (size_t c = 0; c < cases.size(); ++c) {
    const DeltaScanTensors inputs = ScanInputs(cases[c]);
    for (const bool backward : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "case " << c << (backward ? ", backward" : ""));
      const Made made = CallScan(cases[c], inputs, backward),
                 wanted = WantedScan(cases[c], inputs, backward);
      EXPECT_TRUE(RelativeError(made.state, wanted.state, kScanBound));
      EXPECT_TRUE(RelativeError(made.states, wanted.states, kScanBound));
      if (wanted.written.defined()) {
        EXPECT_TRUE(RelativeError(made.written, wanted.written, kScanBound));
      }
    }
  }
}

// kRoundedBound: for the distance from products with the same rounded operands. It is not 0,
// because after fp32 rounding one operand in thousands is rounded to another TF32 neighbor, 2^-10
// away (observed: 5e-5 after three chunks). kTf32Bound: for the distance from the definition after
// two consecutive products whose operands have rounding errors of 2e-4 each.
constexpr double kRoundedBound = 1e-4, kTf32Bound = 6e-4;

TEST(DeltaScanTest, InTf32) {
  const std::vector<ScanCase> cases = {
      {.round_begin = {0, 1}, .heads = 1},
      {.round_begin = {0, 1, 2, 3}, .width = 32, .added = true},
      // Documents of three, two, one, one and zero chunks.
      {.round_begin = {0, 4, 6, 7}, .documents = 5, .heads = 1, .decay_by_channel = true},
      {.round_begin = {0, 2, 3}, .documents = 2, .keys = 64, .width = 36, .written = false},
      {.round_begin = {0, 1, 2}, .keys = 64, .width = 20, .decay_by_channel = true, .added = true},
  };
  for (size_t c = 0; c < cases.size(); ++c) {
    const DeltaScanTensors inputs = ScanInputs(cases[c]);
    for (const bool backward : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "case " << c << (backward ? ", backward" : ""));
      const Made made = CallScan(cases[c], inputs, backward, /*tf32=*/true);
      for (const bool rounded : {true, false}) {
        const Made wanted = WantedScan(cases[c], inputs, backward, rounded);
        const double bound = rounded ? kRoundedBound : kTf32Bound;
        EXPECT_TRUE(RelativeError(made.state, wanted.state, bound)) << rounded;
        EXPECT_TRUE(RelativeError(made.states, wanted.states, bound)) << rounded;
        if (wanted.written.defined()) {
          EXPECT_TRUE(RelativeError(made.written, wanted.written, bound)) << rounded;
        }
      }
    }
  }
}

// Sizes that the TF32 kernel does not support are computed in fp32.
TEST(DeltaScanTest, NotInTf32) {
  for (const ScanCase& one : {ScanCase{.round_begin = {0, 1}, .heads = 1, .keys = 32},
                              ScanCase{.round_begin = {0, 1}, .heads = 1, .width = 18}}) {
    const DeltaScanTensors inputs = ScanInputs(one);
    EXPECT_TRUE(BitEqual(CallScan(one, inputs, false, /*tf32=*/true).state,
                         CallScan(one, inputs, false, /*tf32=*/false).state));
  }
}

TEST(DeltaScanTest, AnyOrderOfThreads) {
  for (const int64_t keys : {24, 64}) {
    const ScanCase one{
        .round_begin = {0, 2, 3}, .documents = 2, .keys = keys, .width = 20, .added = true};
    const DeltaScanTensors inputs = ScanInputs(one);
    const bool tf32 = keys == 64;
    const Made wanted = CallScan(one, inputs, false, tf32);
    for (const uint64_t seed : kOrders) {
      const fibers::OrderScope order(seed);
      const Made made = CallScan(one, inputs, false, tf32);
      EXPECT_TRUE(BitEqual(made.written, wanted.written));
      EXPECT_TRUE(BitEqual(made.state, wanted.state));
      EXPECT_TRUE(BitEqual(made.states, wanted.states));
    }
  }
}

// Tensors that are not aligned to 16 bytes give the same bits.
TEST(DeltaScanTest, AnyStrides) {
  const ScanCase one{.round_begin = {0, 1, 2}, .heads = 1, .keys = 16, .width = 16};
  DeltaScanTensors inputs = ScanInputs(one);
  const Made wanted = CallScan(one, inputs, false);
  const at::Tensor odd = at::empty({inputs.a_NHCK.numel() + 1}).narrow(0, 1, inputs.a_NHCK.numel());
  inputs.a_NHCK = odd.view(inputs.a_NHCK.sizes()).copy_(inputs.a_NHCK);
  const Made made = CallScan(one, inputs, false);
  EXPECT_TRUE(BitEqual(made.written, wanted.written));
  EXPECT_TRUE(BitEqual(made.state, wanted.state));
}

TEST(DeltaScanTest, NoDocumentsAndNoRounds) {
  const ScanCase none{.round_begin = {0}, .documents = 2};
  const DeltaScanTensors inputs = ScanInputs(none);
  EXPECT_TRUE(BitEqual(CallScan(none, inputs, false).state, inputs.state_DHVK));
  const ScanCase nobody{.round_begin = {0}, .documents = 0};
  EXPECT_EQ(CallScan(nobody, ScanInputs(nobody), true).state.numel(), 0);
}

TEST(DeltaScanTest, RefusesShapesAndDtypes) {
  const ScanCase one{.round_begin = {0, 1}, .heads = 1, .keys = 8};
  const auto refuses = [&](const auto& change) {
    DeltaScanTensors tensors = ScanInputs(one);
    change(tensors);
    EXPECT_THROW(CallScan(one, tensors, false), c10::Error);
  };
  refuses([](DeltaScanTensors& t) { t.b_NHCK = t.b_NHCK.to(at::kDouble); });
  refuses([](DeltaScanTensors& t) { t.b_NHCK = t.b_NHCK.narrow(3, 0, 4); });
  refuses([](DeltaScanTensors& t) { t.written_NHCV = t.written_NHCV.transpose(2, 3); });
  refuses([](DeltaScanTensors& t) { t.decay_NH1X = at::ones({1, 1, 1, 3}); });
  refuses([](DeltaScanTensors& t) { t.round_begin = t.round_begin.to(at::kInt); });
  EXPECT_FALSE(DeltaScanTakes(at::kDouble, 64, 128));
  EXPECT_FALSE(DeltaScanTakes(at::kFloat, 64, 257));
  EXPECT_TRUE(DeltaScanTakes(at::kFloat, 64, 256));
}

}  // namespace
}  // namespace moonring::kernels
