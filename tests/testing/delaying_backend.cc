#include "tests/testing/delaying_backend.h"

#include <cstring>
#include <functional>
#include <utility>

#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "absl/time/clock.h"
#include "comm/group.h"

namespace moonring::testing {
namespace {

using c10d::Work;

// A Work whose wait() waits for another Work, sleeps, and then runs a function that completes the
// message.
class LateWork final : public Work {
 public:
  LateWork(c10::intrusive_ptr<Work> inner, absl::Duration delay, std::function<void()> finish)
      : inner_(std::move(inner)), delay_(delay), finish_(std::move(finish)) {}
  bool wait(std::chrono::milliseconds timeout) override {
    absl::SleepFor(delay_);
    const bool done = inner_->wait(timeout);
    if (auto finish = std::exchange(finish_, nullptr)) finish();
    return done;
  }

 private:
  c10::intrusive_ptr<Work> inner_;
  absl::Duration delay_;
  std::function<void()> finish_;
};

void FillWithNan(const at::Tensor& t) { std::memset(t.mutable_data_ptr(), 0xFF, t.nbytes()); }
bool SameBytes(const at::Tensor& a, const at::Tensor& b) {
  return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

void CheckUnwritten(const at::Tensor& sent, const at::Tensor& copy) {
  TORCH_CHECK(SameBytes(sent, copy), "a message was written while it was being sent");
}

}  // namespace

DelayingBackend::DelayingBackend(c10::intrusive_ptr<c10d::Backend> inner, uint32_t seed)
    : Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)), random_(seed) {}

absl::Duration DelayingBackend::Delay() {
  ++delays_;
  return absl::Microseconds(std::uniform_int_distribution<int>(0, 20000)(random_));
}

c10::intrusive_ptr<Work> DelayingBackend::send(std::vector<at::Tensor>& tensors, int to, int tag) {
  const at::Tensor sent = tensors[0], copy = sent.clone();
  return c10::make_intrusive<LateWork>(inner_->send(tensors, to, tag), absl::ZeroDuration(),
                                       [sent, copy] { CheckUnwritten(sent, copy); });
}

c10::intrusive_ptr<Work> DelayingBackend::recv(std::vector<at::Tensor>& tensors, int from,
                                               int tag) {
  const at::Tensor buffer = tensors[0];
  FillWithNan(buffer);
  std::vector<at::Tensor> arrived = {at::empty_like(buffer)};
  return c10::make_intrusive<LateWork>(inner_->recv(arrived, from, tag), Delay(),
                                       [buffer, arrived] { buffer.copy_(arrived[0]); });
}

c10::intrusive_ptr<Work> DelayingBackend::alltoall_base(at::Tensor& received, at::Tensor& sent,
                                                        std::vector<int64_t>& receive_rows,
                                                        std::vector<int64_t>& send_rows,
                                                        const c10d::AllToAllOptions& options) {
  FillWithNan(received);
  at::Tensor arrived = at::empty_like(received);
  auto inner = inner_->alltoall_base(arrived, sent, receive_rows, send_rows, options);
  return c10::make_intrusive<LateWork>(
      std::move(inner), Delay(), [buffer = received, arrived, sent = sent, copy = sent.clone()] {
        CheckUnwritten(sent, copy);
        buffer.copy_(arrived);
      });
}

c10::intrusive_ptr<Work> DelayingBackend::allreduce(std::vector<at::Tensor>& tensors,
                                                    const c10d::AllreduceOptions& options) {
  return c10::make_intrusive<LateWork>(inner_->allreduce(tensors, options), Delay(), nullptr);
}

c10::intrusive_ptr<Work> DelayingBackend::broadcast(std::vector<at::Tensor>& tensors,
                                                    const c10d::BroadcastOptions& options) {
  return c10::make_intrusive<LateWork>(inner_->broadcast(tensors, options), Delay(), nullptr);
}

c10::intrusive_ptr<Work> DelayingBackend::barrier(const c10d::BarrierOptions& options) {
  return c10::make_intrusive<LateWork>(inner_->barrier(options), Delay(), nullptr);
}

DelayedGroup ConnectDelayed(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                            uint32_t seed) {
  const auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::minutes(10));
  options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
  options->threads = 1;
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  auto backend = c10::make_intrusive<DelayingBackend>(std::move(gloo), seed);
  auto group = std::make_shared<comm::Group>();
  *group = {.name = "delayed",
            .rank = rank,
            .size = size,
            .deadline = absl::Minutes(10),
            .cpu = backend,
            .cuda = nullptr,
            .liveness = nullptr,
            .broken = {}};
  return {std::make_shared<comm::Communicator>(std::move(group)), std::move(backend)};
}

}  // namespace moonring::testing
