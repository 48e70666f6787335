#include "model/blocks/host_store.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace moonring::model {

struct HostStore::Entry {
  at::Tensor host;
  at::Tensor device;     // what was fetched and not given yet
  c10::Event fetched;    // when it is there

  explicit Entry(c10::DeviceType type) : fetched(type) {}
};

struct HostStore::Copies {
  explicit Copies(c10::Device of) : device(of), guard(of.type()), stream(guard.getStreamFromGlobalPool(of, /*isHighPriority=*/false)) {}

  // `first` gets all that `second` has been given so far before it goes on.
  void Wait(const c10::Stream& first, const c10::Stream& second) const {
    c10::Event event(device.type());
    event.record(second);
    event.block(first);
  }

  // The copies of one stream are in order: a fetch finds what was put.
  void Fetch(Entry& entry) const {
    if (entry.device.defined()) return;
    const c10::StreamGuard on(stream);
    entry.device = at::empty(entry.host.sizes(), entry.host.options().device(device).pinned_memory(false));
    entry.device.copy_(entry.host, /*non_blocking=*/true);
    entry.fetched.record(stream);
  }

  c10::Device device;
  c10::impl::VirtualGuardImpl guard;
  c10::Stream stream;
  std::list<std::shared_ptr<Entry>> stored;  // in the order of Put
  int64_t bytes = 0;
};

class HostStore::Stored : public StoredActivation {
 public:
  Stored(std::shared_ptr<Copies> copies, std::shared_ptr<Entry> entry) : copies_(std::move(copies)), entry_(std::move(entry)) {}
  ~Stored() override {
    copies_->stored.remove(entry_);
    copies_->bytes -= static_cast<int64_t>(entry_->host.nbytes());
  }

  at::Tensor Get() override {
    copies_->Fetch(*entry_);
    const auto here = std::find(copies_->stored.begin(), copies_->stored.end(), entry_);
    if (here != copies_->stored.begin()) copies_->Fetch(**std::prev(here));
    const c10::Stream current = copies_->guard.getStream(copies_->device);
    entry_->fetched.block(current);
    at::Tensor given = std::exchange(entry_->device, at::Tensor());
    given.record_stream(current);
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
  TORCH_CHECK(activation.device() == copies_->device, "activation_offload: a tensor on ", activation.device(), ", wanted one on ", copies_->device);
  auto entry = std::make_shared<Entry>(copies_->device.type());
  entry->host = at::empty(activation.sizes(), activation.options().device(at::kCPU).pinned_memory(true));
  copies_->Wait(copies_->stream, copies_->guard.getStream(copies_->device));
  {
    const c10::StreamGuard on(copies_->stream);
    entry->host.copy_(activation.detach(), /*non_blocking=*/true);
  }
  activation.record_stream(copies_->stream);
  copies_->stored.push_back(entry);
  copies_->bytes += static_cast<int64_t>(entry->host.nbytes());
  return std::make_unique<Stored>(copies_, std::move(entry));
}

int64_t HostStore::stored_bytes() const { return copies_->bytes; }

}  // namespace moonring::model
