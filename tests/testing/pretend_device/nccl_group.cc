// Implements comm/nccl_group.h for the pretend device. It replaces the NCCL implementation in
// programs that link it before //comm:nccl_group.
//
// Gloo moves the bytes, but the rules are NCCL's. Host tensors, and two ranks on one device, are
// rejected. A group has its own stream: a call is ordered after the current stream's work, and
// wait() makes the current stream wait for it, not the host. Sends and receives between
// startCoalescing and endCoalescing are one call, which is null if there were none; collectives
// between them share one Work. Unlike NCCL, which hangs or mixes up bytes, this group detects ranks
// that make different calls: each call begins with an exchange of its description. If a group is
// destroyed while a call may still be queued, the process ends.

#include "comm/nccl_group.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "tests/testing/pretend_device/kernel.h"
#include "tests/testing/pretend_device/timeline.h"

namespace moonring::comm {
namespace {

using c10d::Work;
using Tensors = std::vector<at::Tensor>;

c10::impl::VirtualGuardImpl Guard() { return c10::impl::VirtualGuardImpl(c10::kCUDA); }
c10::Stream Current() { return Guard().getStream(Guard().getDevice()); }

// The Work of a call: it keeps the call's tensors alive until wait().
class Done final : public Work {
 public:
  Done(pretend::Clock end, Tensors tensors) : end_(std::move(end)), tensors_(std::move(tensors)) {}
  bool isCompleted() override { return true; }
  bool wait(std::chrono::milliseconds) override {
    pretend::WaitForEvent(Current(), end_);
    tensors_.clear();
    return true;
  }
  void synchronize() override { wait(kNoTimeout); }

 private:
  const pretend::Clock end_;
  Tensors tensors_;
};

class PretendNccl final : public c10d::Backend {
 public:
  PretendNccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
              std::chrono::milliseconds timeout)
      : c10d::Backend(rank, size), stream_(Guard().getNewStream(Guard().getDevice())) {
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    gloo_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
    CheckDevices();
  }

  // NCCL's destructor aborts queued calls, and so the other ranks' part of them; here that is a
  // fatal error, because a destructor cannot throw.
  ~PretendNccl() override {
    if (aborted_ || std::uncaught_exceptions() > 0 || pretend::HostHasWaited(stream_)) return;
    std::fprintf(stderr,
                 "pretend device: a group of NCCL ends while its last call of %lld is queued: the "
                 "device must be waited for before\n",
                 static_cast<long long>(calls_));
    std::abort();
  }

  const std::string getBackendName() const override { return "pretend nccl"; }
  bool supportsCoalescing() const override { return true; }

  c10::intrusive_ptr<Work> allreduce(Tensors& tensors,
                                     const c10d::AllreduceOptions& options) override {
    return Collective("allreduce", {}, {tensors[0]},
                      [&](Tensors, Tensors to) { return gloo_->allreduce(to, options); });
  }
  c10::intrusive_ptr<Work> broadcast(Tensors& tensors,
                                     const c10d::BroadcastOptions& options) override {
    return Collective("broadcast", {}, {tensors[0]},
                      [&](Tensors, Tensors to) { return gloo_->broadcast(to, options); });
  }
  c10::intrusive_ptr<Work> alltoall_base(at::Tensor& to, at::Tensor& from,
                                         std::vector<int64_t>& out, std::vector<int64_t>& in,
                                         const c10d::AllToAllOptions& options) override {
    return Collective(
        "alltoall", {from}, {to},
        [&](Tensors given, Tensors made) {
          return gloo_->alltoall_base(made[0], given[0], out, in, options);
        },
        /*same_sizes=*/false);
  }

  c10::intrusive_ptr<Work> _allgather_base(at::Tensor& whole, at::Tensor& part,
                                           const c10d::AllgatherOptions& options) override {
    TORCH_CHECK(options.asyncOp && whole.numel() == part.numel() * getSize() &&
                whole.scalar_type() == part.scalar_type());
    return Remember({whole},
                    Collective("allgather", {part}, {whole}, [&](Tensors from, Tensors to) {
                      return gloo_->_allgather_base(to[0], from[0], options);
                    }));
  }
  c10::intrusive_ptr<Work> _reduce_scatter_base(
      at::Tensor& sum, at::Tensor& rows, const c10d::ReduceScatterOptions& options) override {
    TORCH_CHECK(options.asyncOp && rows.numel() == sum.numel() * getSize() &&
                rows.scalar_type() == sum.scalar_type());
    return Remember({rows, sum},
                    Collective("reduce_scatter", {rows}, {sum}, [&](Tensors from, Tensors to) {
                      return gloo_->_reduce_scatter_base(to[0], from[0], options);
                    }));
  }

  void startCoalescing() override { coalescing_ = true; }
  c10::intrusive_ptr<Work> endCoalescing() override {
    coalescing_ = false;
    if (!coalesced_.empty()) {
      TORCH_CHECK(pending_.empty(), "collectives and messages in one batch");
      return c10::make_intrusive<Done>(pretend::Record(stream_), std::exchange(coalesced_, {}));
    }
    if (pending_.empty()) return nullptr;
    const std::vector<PointToPoint> calls = std::move(pending_);
    pending_.clear();
    return Exchange(calls);
  }
  c10::intrusive_ptr<Work> send(Tensors& tensors, int peer, int tag) override {
    return Add({tensors[0], peer, tag, true});
  }
  c10::intrusive_ptr<Work> recv(Tensors& tensors, int peer, int tag) override {
    return Add({tensors[0], peer, tag, false});
  }

  void abort() override { aborted_ = true; }
  void shutdown() override {}

 private:
  struct PointToPoint {
    at::Tensor tensor;
    int peer, tag;
    bool sends;
  };

  static void Check(const char* name, const at::Tensor& tensor) {
    TORCH_CHECK(tensor.is_cuda(), name, ": No backend type associated with device type ",
                tensor.device().type(), " (NCCL's tensors are on a GPU)");
    TORCH_CHECK(tensor.is_non_overlapping_and_dense(), name,
                ": Tensors must be non-overlapping and dense");
  }

  // Between startCoalescing and endCoalescing a collective has no Work of its own.
  c10::intrusive_ptr<Work> Remember(const Tensors& tensors, c10::intrusive_ptr<Work> work) {
    if (!coalescing_) return work;
    coalesced_.insert(coalesced_.end(), tensors.begin(), tensors.end());
    return nullptr;
  }

  // Gathers `mine` from all ranks, in rank order.
  std::vector<std::string> All(const std::string& mine) {
    constexpr int64_t kBytes = 200;
    at::Tensor row = at::zeros({kBytes}, at::kByte),
               rows = at::empty({getSize() * kBytes}, at::kByte);
    std::memcpy(row.mutable_data_ptr(), mine.data(), std::min<size_t>(mine.size(), kBytes - 1));
    gloo_->_allgather_base(rows, row, {})->wait();
    std::vector<std::string> all;
    for (int r = 0; r < getSize(); ++r)
      all.emplace_back(static_cast<const char*>(rows.const_data_ptr()) + r * kBytes);
    return all;
  }

  void CheckDevices() {
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    const std::vector<std::string> all =
        All(c10::str(host, ", GPU ", static_cast<int>(Guard().getDevice().index())));
    for (int r = 0; r < getSize(); ++r) {
      for (int s = 0; s < r; ++s) {
        TORCH_CHECK(all[r] != all[s], "Duplicate GPU detected : rank ", s, " and rank ", r,
                    " both on ", all[r]);
      }
    }
  }

  // Checks that all ranks make the same call; otherwise every rank throws an error that lists the
  // calls.
  void CheckCall(const std::string& mine) {
    const std::vector<std::string> all = All(mine);
    for (int r = 1; r < getSize(); ++r) {
      TORCH_CHECK(all[r] == all[0], "call ", calls_, " of a group: rank 0 makes ", all[0],
                  ", rank ", r, " ", all[r]);
    }
    ++calls_;
  }

  // Orders the group's stream after the current one, and launches a kernel there that reads and
  // writes these tensors.
  template <typename Run>
  c10::intrusive_ptr<Work> OnOwnStream(const char* name, const Tensors& from, const Tensors& to,
                                       const Run& run) {
    pretend::WaitForEvent(stream_, pretend::Record(Current()));
    const c10::Stream before = Guard().exchangeStream(stream_);
    Tensors seen_from, seen_to, held = from;
    pretend::Kernel kernel(name);
    for (const at::Tensor& tensor : from)
      seen_from.push_back(kernel.Sees(tensor, /*writes=*/false));
    for (const at::Tensor& tensor : to) seen_to.push_back(kernel.Sees(tensor, /*writes=*/true));
    held.insert(held.end(), to.begin(), to.end());
    try {
      kernel.Launch();
      run(seen_from, seen_to);
    } catch (...) {
      Guard().exchangeStream(before);
      throw;
    }
    Guard().exchangeStream(before);
    return c10::make_intrusive<Done>(pretend::Record(stream_), std::move(held));
  }

  template <typename Run>
  c10::intrusive_ptr<Work> Collective(const char* name, const Tensors& from, const Tensors& to,
                                      const Run& run, bool same_sizes = true) {
    for (const Tensors* tensors : {&from, &to}) {
      for (const at::Tensor& tensor : *tensors) Check(name, tensor);
    }
    CheckCall(same_sizes ? c10::str(name, " of ", to[0].scalar_type(), " ", to[0].sizes())
                         : c10::str(name, " of ", to[0].scalar_type()));
    return OnOwnStream(name, from, to,
                       [&](Tensors& given, Tensors& made) { run(given, made)->wait(); });
  }

  c10::intrusive_ptr<Work> Add(PointToPoint call) {
    Check(call.sends ? "send" : "recv", call.tensor);
    if (!coalescing_) return Exchange({call});
    pending_.push_back(std::move(call));
    return nullptr;
  }

  c10::intrusive_ptr<Work> Exchange(const std::vector<PointToPoint>& calls) {
    Tensors from, to;
    for (const PointToPoint& call : calls) (call.sends ? from : to).push_back(call.tensor);
    return OnOwnStream("exchange", from, to, [&](Tensors& given, Tensors& made) {
      std::vector<c10::intrusive_ptr<Work>> works;
      size_t sent = 0, received = 0;
      for (const PointToPoint& call : calls) {
        Tensors one = {call.sends ? given[sent++] : made[received++]};
        works.push_back(call.sends ? gloo_->send(one, call.peer, call.tag)
                                   : gloo_->recv(one, call.peer, call.tag));
      }
      for (const auto& work : works) work->wait();
    });
  }

  const c10::Stream stream_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
  bool coalescing_ = false, aborted_ = false;
  std::vector<PointToPoint> pending_;
  Tensors coalesced_;  // of collectives in the batch
  int64_t calls_ = 0;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> MakeNcclGroup(const c10::intrusive_ptr<c10d::Store>& store,
                                                int rank, int size,
                                                std::chrono::milliseconds timeout) {
  return c10::make_intrusive<PretendNccl>(store, rank, size, timeout);
}

}  // namespace moonring::comm
