#include "model/blocks/host_store.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace moonring::model {
namespace {

// On their way out at a time: what a block puts under Recompute::kSelective (its input, attention's
// out and lse), so that the copies of one block run beside the next one.
constexpr size_t kLeaving = 3;

// In a destructor. A stream that cannot be told to wait is one of a device that has failed: nothing
// runs there any more that could use the memory.
template <typename Waiting>
void WaitIfItCan(const Waiting& wait) {
  try {
    wait();
  } catch (const std::exception&) {
  }
}

}  // namespace

struct HostStore::Entry {
  at::Tensor host;
  at::Tensor device;   // what was fetched and not given yet
  c10::Stream stream;  // whose memory `device` is
  c10::Event fetched;  // when it is there

  explicit Entry(c10::Stream of) : stream(of), fetched(of.device_type()) {}
};

// Memory goes from stream to stream by waiting for events, not by Tensor::record_stream: what is
// freed under that comes back once the device is done, and the host, which is ahead of it by a
// whole pass, would find none of it free.
struct HostStore::Copies {
  explicit Copies(c10::Device of)
      : device(of),
        guard(of.type()),
        stream(guard.getStreamFromGlobalPool(of, /*isHighPriority=*/false)) {}
  ~Copies() {
    WaitIfItCan([this] {
      while (!leaving.empty()) LetGo();
    });
  }

  c10::Stream Current() const { return guard.getStream(device); }

  // `first` goes on only when all that `second` has been given so far is done.
  void Wait(const c10::Stream& first, const c10::Stream& second) const {
    c10::Event event(device.type());
    event.record(second);
    event.block(first);
  }

  void Send(const at::Tensor& from, const at::Tensor& host) {
    const c10::Stream current = Current();
    Wait(stream, current);
    Leaving out{from, current, c10::Event(device.type())};
    {
      const c10::StreamGuard on(stream);
      host.copy_(from, /*non_blocking=*/true);
      out.copied.record(stream);
    }
    leaving.push_back(std::move(out));
    while (leaving.size() > kLeaving) LetGo();
  }

  // The tensor that has been leaving longest: its stream waits for the copy, and may then have the
  // memory.
  void LetGo() {
    leaving.front().copied.block(leaving.front().stream);
    leaving.pop_front();
  }

  // The copies of one stream are in order: a fetch finds what was put. It comes into memory of the
  // caller's stream, behind whatever that has been given so far, which may still use this memory.
  void Fetch(Entry& entry) const {
    if (entry.device.defined()) return;
    entry.stream = Current();
    entry.device = at::empty(entry.host.sizes(), entry.host.options().device(device));
    Wait(stream, entry.stream);
    const c10::StreamGuard on(stream);
    entry.device.copy_(entry.host, /*non_blocking=*/true);
    entry.fetched.record(stream);
  }

  struct Leaving {
    at::Tensor tensor;
    c10::Stream stream;  // it was put from
    c10::Event copied;
  };

  c10::Device device;
  c10::impl::VirtualGuardImpl guard;
  c10::Stream stream;
  std::deque<Leaving> leaving;
  std::list<std::shared_ptr<Entry>> stored;  // in the order of Put
  int64_t bytes = 0;
};

class HostStore::Stored : public StoredActivation {
 public:
  Stored(std::shared_ptr<Copies> copies, std::shared_ptr<Entry> entry)
      : copies_(std::move(copies)), entry_(std::move(entry)) {}
  ~Stored() override {
    // Fetched for nothing: the memory is its stream's again once the copy into it is done.
    if (entry_->device.defined()) WaitIfItCan([this] { entry_->fetched.block(entry_->stream); });
    copies_->stored.remove(entry_);
    copies_->bytes -= static_cast<int64_t>(entry_->host.nbytes());
  }

  at::Tensor Get() override {
    while (!copies_->leaving.empty()) copies_->LetGo();
    copies_->Fetch(*entry_);
    const auto here = std::find(copies_->stored.begin(), copies_->stored.end(), entry_);
    if (here != copies_->stored.begin()) copies_->Fetch(**std::prev(here));
    const c10::Stream current = copies_->Current();
    entry_->fetched.block(current);
    at::Tensor given = std::exchange(entry_->device, at::Tensor());
    if (current != entry_->stream) given.record_stream(current);
    return given;
  }

 private:
  std::shared_ptr<Copies> copies_;
  std::shared_ptr<Entry> entry_;
};

HostStore::HostStore(c10::Device device) {
  TORCH_CHECK(!device.is_cpu(), "activation_offload: cpu is for activations of a GPU");
  // "cuda" is this rank's GPU; tensors on it say which one that is.
  if (!device.has_index()) device = c10::impl::VirtualGuardImpl(device.type()).getDevice();
  copies_ = std::make_shared<Copies>(device);
}

std::unique_ptr<StoredActivation> HostStore::Put(at::Tensor activation) {
  TORCH_CHECK(activation.device() == copies_->device, "activation_offload: a tensor on ",
              activation.device(), ", wanted one on ", copies_->device);
  auto entry = std::make_shared<Entry>(copies_->Current());
  entry->host =
      at::empty(activation.sizes(), activation.options().device(at::kCPU).pinned_memory(true));
  copies_->Send(activation.detach(), entry->host);
  copies_->stored.push_back(entry);
  copies_->bytes += static_cast<int64_t>(entry->host.nbytes());
  return std::make_unique<Stored>(copies_, std::move(entry));
}

int64_t HostStore::stored_bytes() const { return copies_->bytes; }

}  // namespace moonring::model
