#include "tests/testing/pretend_device/device.h"

#include <chrono>
#include <thread>

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonring::pretend {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const c10::Device kDevice(c10::kCUDA, 0);

c10::impl::VirtualGuardImpl DeviceTestGuard() { return c10::impl::VirtualGuardImpl(c10::kCUDA); }
at::Tensor OnHost(const at::Tensor& tensor) { return tensor.to(at::kCPU); }

TEST(PretendDevice, IsAGpuToLibTorch) {
  const at::Tensor x = at::zeros({2, 3}, kDevice);
  EXPECT_TRUE(x.is_cuda());
  EXPECT_EQ(x.device(), kDevice);
  EXPECT_TRUE(at::hasCUDA());
  EXPECT_EQ(at::zeros({1}, c10::Device(c10::kCUDA)).device(), kDevice);
}

// The forward and backward of operators that models use equal the CPU's in fp64. (For some of them
// the CPU has other operators, so the last bits may differ.)
TEST(PretendDevice, ComputesForwardAndBackward) {
  const at::Tensor x = at::randn({5, 8}, at::kDouble), w = at::randn({7, 8}, at::kDouble),
                   bias = at::randn({7}, at::kDouble);
  const auto gradients = [&](c10::Device device) {
    const auto leaf = [&](const at::Tensor& t) {
      return t.to(device).detach().set_requires_grad(true);
    };
    const at::Tensor a = leaf(x), b = leaf(w), c = leaf(bias);
    const at::Tensor hidden =
        at::silu(at::linear(a, b, c)).mul(2).slice(0, 1).transpose(0, 1).contiguous();
    const at::Tensor loss = at::log_softmax(hidden.view({2, -1}), 1).square().sum() +
                            at::cat({a, a}).index_select(0, at::arange(3, device)).sum();
    std::vector<at::Tensor> results = torch::autograd::grad({loss}, {a, b, c});
    results.push_back(loss.detach());
    for (at::Tensor& result : results) result = OnHost(result);
    return results;
  };
  const std::vector<at::Tensor> want = gradients(at::kCPU), got = gradients(kDevice);
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_LE((got[i] - want[i]).norm().item<double>(), 1e-13 * want[i].norm().item<double>()) << i;
  // Autograd's thread frees its last tensors after grad() has returned; the tests after this one
  // count bytes, so this loop waits until only the workspace of products is left.
  constexpr int64_t kWorkspace = int64_t{32} << 20;
  for (int i = 0; i < 10000 && CountsNow().held_bytes > kWorkspace; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(CountsNow().held_bytes, kWorkspace);
}

TEST(PretendDevice, ManyTensorsAreOneKernel) {
  std::vector<at::Tensor> tensors = {at::ones({3}, kDevice), at::ones({2, 2}, kDevice)};
  ResetCounts();
  at::_foreach_mul_(tensors, 3.0);
  EXPECT_EQ(CountsNow().Kernels(), 1);
  EXPECT_EQ(OnHost(tensors[1]).sum().item<double>(), 12);
}

TEST(PretendDevice, OutputsGrow) {
  at::Tensor out = at::empty({0}, kDevice);
  at::add_out(out, at::ones({4}, kDevice), at::ones({4}, kDevice));
  EXPECT_EQ(out.sizes(), at::IntArrayRef({4}));
  EXPECT_EQ(OnHost(out).sum().item<double>(), 8);
}

TEST(PretendDevice, NewMemoryIsNaN) {
  EXPECT_TRUE(OnHost(at::empty({4}, kDevice)).isnan().all().item<bool>());
}

TEST(PretendDevice, CountsCopiesAndWaits) {
  const at::Tensor x = at::ones({256}), pinned = x.pin_memory(), there = at::empty({256}, kDevice);
  ASSERT_TRUE(pinned.is_pinned());
  ResetCounts();
  there.copy_(pinned, /*non_blocking=*/true);
  EXPECT_EQ(CountsNow().to_device.count, 1);
  EXPECT_EQ(CountsNow().to_device.blocking, 0);
  there.copy_(x, /*non_blocking=*/true);  // not pinned
  EXPECT_EQ(CountsNow().to_device.largest_blocking, 1024);
  EXPECT_EQ(CountsNow().Synchronizations(), 1);
  EXPECT_EQ(there.sum().item<double>(), 256);
  EXPECT_EQ(CountsNow().synchronizations["item"], 1);
  EXPECT_EQ(at::nonzero(there).size(0), 256);
  EXPECT_EQ(CountsNow().Synchronizations(), 3);
}

TEST(PretendDevice, CountsBytes) {
  ResetCounts();
  const int64_t before = CountsNow().held_bytes;
  {
    const at::Tensor x = at::empty({1024}, kDevice), y = x.view({32, 32}),
                     z = at::empty({1}, kDevice);
    EXPECT_EQ(CountsNow().held_bytes - before, 4096 + 512);
  }
  EXPECT_EQ(CountsNow().held_bytes, before);
  EXPECT_EQ(CountsNow().peak_bytes - before, 4096 + 512);
}

// Returns the offsets of two sequences of 40 and 56 rows; the tests use 4 heads of dimension 24,
// rounded up to 32.
at::Tensor OffsetsOnDevice() { return at::tensor({0, 40, 96}, at::kInt).to(kDevice); }

TEST(PretendDevice, FlashAttentionTakesWhatItsKernelDoes) {
  const auto rows = [](int64_t heads) {
    return at::ones({96, heads, 24}, kDevice).to(at::kBFloat16);
  };
  const at::Tensor q = rows(4), k = rows(2), v = rows(2), dout = rows(4),
                   offsets = OffsetsOnDevice();
  const auto [out, lse, state, unused, mask] = at::_flash_attention_forward(
      q, k, v, offsets, offsets, 56, 56, /*dropout_p=*/0.0, /*is_causal=*/true, false, 1.0, -1, -1);
  const auto peak = [&, out = out, lse = lse] {
    ResetCounts();
    const int64_t before = CountsNow().held_bytes;
    at::_flash_attention_backward(dout, q, k, v, out, lse, offsets, offsets, 56, 56, 0.0, true,
                                  offsets, offsets, 1.0, -1, -1);
    return CountsNow().peak_bytes - before;
  };
  const int64_t sums = 4 * (96 + 2 * 128) * 4 * 32, of_rows = 4 * 4 * (96 + 2 * 128);
  const int64_t results = 2 * 96 * 24 * (4 + 2 + 2), of_each_head = 2 * 2 * 96 * 24 * 4;
  EXPECT_EQ(peak(), sums + of_rows + of_each_head + results);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  EXPECT_EQ(peak(), 17 * sums + of_rows + of_each_head + results)
      << "132 multiprocessors over 2 x 4 heads";
  at::globalContext().setDeterministicAlgorithms(false, false);
}

TEST(PretendDevice, EfficientAttentionTakesWhatItsKernelDoes) {
  const at::Tensor q = at::ones({1, 96, 4, 24}, kDevice), offsets = OffsetsOnDevice();
  const auto forward = at::_efficient_attention_forward(q, q, q, std::nullopt, offsets, offsets, 56,
                                                        56, 0.0, /*custom_mask_type=*/1, true, 1.0);
  ResetCounts();
  const int64_t before = CountsNow().held_bytes;
  at::_efficient_attention_backward(q, q, q, q, std::nullopt, std::get<0>(forward), offsets,
                                    offsets, 56, 56, std::get<1>(forward), 0.0, offsets, offsets, 1,
                                    false, 1.0);
  // The results; sums of dout * out; and for each head and sequence a 64 x 64 tile of dq sums with
  // its lock.
  const int64_t workspace = 4 * 96 * 4 + 2 * 4 * (4 * 64 * 64 + 16);
  EXPECT_EQ(CountsNow().peak_bytes - before, 3 * 4 * 96 * 4 * 24 + (workspace + 511) / 512 * 512);
}

TEST(PretendDevice, HasAnEnd) {
  EXPECT_THAT([] { at::empty({int64_t{1} << 40}, kDevice); },
              ThrowsMessage<c10::OutOfMemoryError>(HasSubstr("CUDA out of memory")));
}

// --- what it catches --------------------------------------------------------

TEST(PretendDeviceDeathTest, TheHostReadsItsMemory) {
  const at::Tensor x = at::ones({3, 5}, kDevice);
  EXPECT_EXIT(std::printf("%f", static_cast<const float*>(x.const_data_ptr())[2]),
              ::testing::KilledBySignal(SIGSEGV), R"(byte 8 of a tensor Float \[3, 5\])");
}

TEST(PretendDevice, AKernelIsGivenTheHostsMemory) {
  const at::Tensor x = at::ones({3}, kDevice);
  EXPECT_THAT([&] { at::add(x, at::ones({3})); },
              ThrowsMessage<c10::Error>(HasSubstr("on the same device")));
  EXPECT_NO_THROW(at::add(x, at::ones({})));
  float host[3] = {};
  const at::Tensor false_claim = at::from_blob(host, {3}, at::TensorOptions().device(at::kCPU));
  EXPECT_THAT([&] { at::index_select(x, 0, false_claim.to(at::kLong)); },
              ThrowsMessage<c10::Error>(HasSubstr("device")));
}

TEST(PretendDevice, ProductsAreOfFloats) {
  const at::Tensor x = at::ones({3, 3}, at::TensorOptions(kDevice).dtype(at::kLong));
  EXPECT_THAT([&] { at::mm(x, x); },
              ThrowsMessage<c10::Error>(HasSubstr("not implemented for 'Long'")));
}

// The output memory is NaN at first, and is not read because beta is 0. The fp64 sum is exact to
// 1e-16; the fp32 sum differs by a few roundings; a bf16 sum would differ by 4e-3.
TEST(PretendDevice, ProductsOfBf16AddUpInFp32) {
  const at::Tensor a = at::randn({5, 40}).to(at::kBFloat16),
                   b = at::randn({40, 3}).to(at::kBFloat16),
                   exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
  at::Tensor sum = at::empty({5, 3}, kDevice);
  for (const double times : {1.0, 2.5}) {
    at::addmm_outf(sum, a.to(kDevice), b.to(kDevice), at::kFloat, /*beta=*/times == 1.0 ? 0.0 : 0.5,
                   /*alpha=*/times == 1.0 ? 1.0 : 2.0, sum);
    EXPECT_LE((OnHost(sum) - exact * times).norm().item<double>(),
              1e-6 * exact.norm().item<double>());
  }
  EXPECT_THAT([&] { at::addmm_outf(sum, sum, sum.t(), at::kFloat, 0.0, 1.0, sum); },
              ThrowsMessage<c10::Error>(HasSubstr("fp16/bf16 inputs")));
}

TEST(PretendDevice, AStreamDoesNotWaitForAnother) {
  const at::Tensor x = at::ones({3}, kDevice);
  const c10::Stream other = DeviceTestGuard().getStreamFromGlobalPool(kDevice);
  {
    const c10::StreamGuard guard(other);
    EXPECT_THAT([&] { at::add(x, 1); },
                ThrowsMessage<c10::Error>(HasSubstr("an event is missing")));
  }
  c10::Event event(c10::kCUDA);
  event.record(DeviceTestGuard().getStream(kDevice));
  event.block(other);
  const c10::StreamGuard guard(other);
  EXPECT_NO_THROW(at::add(x, 1));
  c10::Event back(c10::kCUDA);
  back.record(other);
  back.block(DeviceTestGuard().getDefaultStream(kDevice));
}

TEST(PretendDevice, StreamsMayShareATensorByParts) {
  const at::Tensor x = at::zeros({4, 3}, kDevice);
  const c10::Stream home = DeviceTestGuard().getStream(kDevice),
                    other = DeviceTestGuard().getStreamFromGlobalPool(kDevice);
  c10::Event ready(c10::kCUDA), done(c10::kCUDA);
  ready.record(home);
  ready.block(other);
  {
    const c10::StreamGuard guard(other);
    x.narrow(0, 2, 2).fill_(1);
    done.record(other);
  }
  EXPECT_NO_THROW(x.narrow(0, 0, 2).fill_(2));
  EXPECT_THAT([&] { x.narrow(0, 1, 2).fill_(2); },
              ThrowsMessage<c10::Error>(HasSubstr("an event is missing")));
  EXPECT_THAT([&] { x.sum(); }, ThrowsMessage<c10::Error>(HasSubstr("an event is missing")));
  done.block(home);
  EXPECT_EQ(x.sum().item<double>(), 18);
}

TEST(PretendDeviceDeathTest, MemoryIsFreedUnderAStream) {
  const auto use = [](bool record) {
    at::Tensor x = at::ones({3}, kDevice);
    c10::Event event(c10::kCUDA);
    event.record(DeviceTestGuard().getStream(kDevice));
    const c10::Stream other = DeviceTestGuard().getStreamFromGlobalPool(kDevice);
    event.block(other);
    const c10::StreamGuard guard(other);
    x.sum();
    if (record) x.record_stream(other);
    x.reset();
    std::exit(0);
  };
  EXPECT_EXIT(use(true), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(use(false), ::testing::KilledBySignal(SIGABRT),
              "record_stream or an event is missing");
}

TEST(PretendDevice, TheHostDoesNotWaitForACopy) {
  const at::Tensor x = at::ones({3}, kDevice),
                   pinned = at::empty({3}, at::TensorOptions().pinned_memory(true));
  pinned.copy_(x, /*non_blocking=*/true);
  EXPECT_TRUE(pinned.isnan().all().item<bool>());
  DeviceTestGuard().synchronizeStream(DeviceTestGuard().getStream(kDevice));
  EXPECT_EQ(pinned.sum().item<double>(), 3);
}

// Copies to the host and back on two streams need no wait of the host: an event is enough.
TEST(PretendDevice, WhatLeavesComesBack) {
  const at::Tensor x = at::ones({3}, kDevice),
                   pinned = at::empty({3}, at::TensorOptions().pinned_memory(true));
  const c10::Stream home = DeviceTestGuard().getStream(kDevice),
                    other = DeviceTestGuard().getStreamFromGlobalPool(kDevice);
  pinned.copy_(x, /*non_blocking=*/true);
  const c10::StreamGuard guard(other);
  const at::Tensor back = at::empty({3}, kDevice);
  EXPECT_THAT([&] { back.copy_(pinned, /*non_blocking=*/true); },
              ThrowsMessage<c10::Error>(HasSubstr("memory of the host that stream 0 is copying")));
  c10::Event event(c10::kCUDA);
  event.record(home);
  event.block(other);
  back.copy_(pinned, /*non_blocking=*/true);
  EXPECT_EQ(back.sum().item<double>(), 3);
}

TEST(PretendDeviceDeathTest, ASourceChangesUnderItsCopy) {
  const auto copy = [] {
    const at::Tensor pinned = at::ones({3}).pin_memory(), there = at::empty({3}, kDevice);
    there.copy_(pinned, /*non_blocking=*/true);
    pinned.fill_(2);
    DeviceTestGuard().synchronizeStream(DeviceTestGuard().getStream(kDevice));
  };
  EXPECT_EXIT(copy(), ::testing::KilledBySignal(SIGABRT), "was written while it was copied");
}

}  // namespace
}  // namespace moonring::pretend
