#include "model/blocks/host_store.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include "base/memory/pinned_memory.h"
#include "base/memory/side_stream.h"

namespace moonring::model {
namespace {

// Maximum number of tensors that are being copied to the CPU at a time. A block under
// Recompute::kSelective stores three tensors (its input, attention's output and log-sum-exp), so
// the copies of one block overlap with the computation of the next block.
constexpr size_t kLeaving = 3;

}  // namespace

struct HostStore::Entry {
  std::vector<at::Tensor> host;  // the copy in CPU memory, in pieces
  std::vector<int64_t> sizes;
  at::ScalarType dtype;
  at::Tensor device;   // prefetched and not returned yet
  c10::Stream stream;  // the stream that `device` was allocated on
  c10::Event fetched;  // recorded after the copy to `device`

  Entry(const at::Tensor& of, c10::Stream current)
      : sizes(of.sizes().vec()),
        dtype(of.scalar_type()),
        stream(current),
        fetched(current.device_type()) {}
  int64_t bytes() const {
    return c10::multiply_integers(sizes) * static_cast<int64_t>(c10::elementSize(dtype));
  }
};

// The copies in both directions. All of them are on one stream, so a piece of CPU memory can be
// reused as soon as its last copy is queued.
struct HostStore::Copies {
  explicit Copies(c10::Device of) : side(of) {}

  void Send(const at::Tensor& from, const Entry& entry) {
    const c10::Stream current = side.Current();
    base::WaitForStream(side.stream(), current);
    {
      const c10::StreamGuard on(side.stream());
      base::CopyToPieces(from, entry.host);
    }
    leaving.Add(from, current, side.stream());
    while (leaving.size() > kLeaving) leaving.LetGo();
  }

  // Starts to copy a tensor back to the GPU. Copies on one stream are ordered, so this copy sees
  // the data that Put has copied. The destination is allocated on the caller's stream, and the copy
  // waits for all work queued on that stream, which may still use the memory.
  void Fetch(Entry& entry) const {
    if (entry.device.defined()) return;
    entry.stream = side.Current();
    entry.device = at::empty(entry.sizes, at::TensorOptions(side.device()).dtype(entry.dtype));
    base::WaitForStream(side.stream(), entry.stream);
    const c10::StreamGuard on(side.stream());
    base::CopyFromPieces(entry.host, entry.device);
    entry.fetched.record(side.stream());
  }

  base::SideStream side;
  std::shared_ptr<base::PinnedChunks> memory = std::make_shared<base::PinnedChunks>();
  base::Leaving leaving;
  std::list<std::shared_ptr<Entry>> stored;  // in the order of Put
  int64_t bytes = 0;
};

class HostStore::Stored : public StoredActivation {
 public:
  Stored(std::shared_ptr<Copies> copies, std::shared_ptr<Entry> entry)
      : copies_(std::move(copies)), entry_(std::move(entry)) {}
  ~Stored() override {
    // The tensor was prefetched but never used: its memory may be reused once the copy into it is
    // done. If waiting fails, the GPU has failed, and the error is ignored.
    try {
      if (entry_->device.defined()) entry_->fetched.block(entry_->stream);
    } catch (const std::exception&) {
    }
    copies_->stored.remove(entry_);
    copies_->bytes -= entry_->bytes();
  }

  at::Tensor Get() override {
    while (copies_->leaving.size() > 0) copies_->leaving.LetGo();
    copies_->Fetch(*entry_);
    const auto here = std::find(copies_->stored.begin(), copies_->stored.end(), entry_);
    if (here != copies_->stored.begin()) copies_->Fetch(**std::prev(here));
    const c10::Stream current = copies_->side.Current();
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
  copies_ = std::make_shared<Copies>(device);
}

std::unique_ptr<StoredActivation> HostStore::Put(at::Tensor activation) {
  TORCH_CHECK(activation.device() == copies_->side.device(), "activation_offload: a tensor on ",
              activation.device(), ", expected one on ", copies_->side.device());
  activation = activation.detach().contiguous();
  auto entry = std::make_shared<Entry>(activation, copies_->side.Current());
  entry->host = copies_->memory->Take(activation.numel(), activation.scalar_type());
  copies_->Send(activation, *entry);
  copies_->stored.push_back(entry);
  copies_->bytes += entry->bytes();
  return std::make_unique<Stored>(copies_, std::move(entry));
}

int64_t HostStore::stored_bytes() const { return copies_->bytes; }

}  // namespace moonring::model
