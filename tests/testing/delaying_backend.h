#ifndef MOONRING_TESTS_TESTING_DELAYING_BACKEND_H_
#define MOONRING_TESTS_TESTING_DELAYING_BACKEND_H_

// A c10d backend that delays its messages and exposes a caller that does not wait for them:
//
//   receive    the buffer is NaN (0xFF) from the start until wait() has slept a random 0 to 20 ms;
//              only then does it contain the message
//   send       wait() fails if the buffer was written since the start
//   others     wait() sleeps a random 0 to 20 ms
//
// The delays depend on the seed and on the order of calls only. The backend forwards the calls that
// comm::Communicator makes to another backend.

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "absl/time/time.h"
#include "comm/communicator.h"

namespace moonring::testing {

class DelayingBackend final : public c10d::Backend {
 public:
  using Work = c10d::Work;

  DelayingBackend(c10::intrusive_ptr<c10d::Backend> inner, uint32_t seed);

  const std::string getBackendName() const override {
    return "delaying " + inner_->getBackendName();
  }

  c10::intrusive_ptr<Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override;
  c10::intrusive_ptr<Work> recv(std::vector<at::Tensor>& tensors, int from, int tag) override;
  c10::intrusive_ptr<Work> alltoall_base(at::Tensor& received, at::Tensor& sent,
                                         std::vector<int64_t>& receive_rows,
                                         std::vector<int64_t>& send_rows,
                                         const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<Work> allreduce(std::vector<at::Tensor>& tensors,
                                     const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<Work> broadcast(std::vector<at::Tensor>& tensors,
                                     const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<Work> barrier(const c10d::BarrierOptions& options) override;

  int64_t delays() const { return delays_; }  // how many so far

 private:
  absl::Duration Delay();

  c10::intrusive_ptr<c10d::Backend> inner_;
  std::mt19937 random_;
  int64_t delays_ = 0;
};

// A group of ranks that are threads, over Gloo and a delaying backend. Each rank passes the same
// store and its own seed.
struct DelayedGroup {
  std::shared_ptr<comm::Communicator> communicator;
  c10::intrusive_ptr<DelayingBackend> backend;
};
DelayedGroup ConnectDelayed(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                            uint32_t seed);

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_DELAYING_BACKEND_H_
