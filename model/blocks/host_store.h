#ifndef MOONRING_MODEL_BLOCKS_HOST_STORE_H_
#define MOONRING_MODEL_BLOCKS_HOST_STORE_H_

// Activations of a GPU in pinned memory of its host:
//
//   Put     copies on a stream of the store's own, behind what the caller's stream has been given so far; the caller's stream does not wait. The tensor's memory
//           is free for others once the copy is done (record_stream)
//   Get     gives what was fetched ahead, or fetches it, and begins to fetch what was put last before it, as a backward takes activations in
//           reverse. The caller's stream waits for the copy, the host does not
//
// GPU memory: one tensor on its way out, one being used and one fetched ahead. Host: the bytes of what is stored, which PyTorch's pinned allocator keeps
// for the next step.

#include <cstdint>
#include <list>
#include <memory>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "model/blocks/activation_store.h"

namespace moonring::model {

class HostStore : public ActivationStore {
 public:
  // For tensors on `device`, which must have streams: not the CPU. Without an index: the current
  // one.
  explicit HostStore(c10::Device device);

  std::unique_ptr<StoredActivation> Put(at::Tensor activation) override;
  int64_t stored_bytes() const override;

 private:
  struct Entry;
  class Stored;
  struct Copies;

  std::shared_ptr<Copies> copies_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_HOST_STORE_H_
