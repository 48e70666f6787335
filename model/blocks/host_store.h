#ifndef MOONRING_MODEL_BLOCKS_HOST_STORE_H_
#define MOONRING_MODEL_BLOCKS_HOST_STORE_H_

// Stores a GPU's activations in pinned host memory:
//
//   Put     copies on the store's own stream, after all work queued on the caller's stream. The
//           caller's stream does not wait, unless three tensors are already being copied out: then
//           it waits for the first of them, whose memory is free after that
//   Get     returns the tensor if it was prefetched, or fetches it; then starts to prefetch the
//           tensor stored before it, because a backward uses activations in reverse order. The
//           caller's stream waits for the copy
//
// The host never waits. GPU memory: three tensors being copied out; or one in use and one
// prefetched. It belongs to the stream that is current at Put and Get; a caller that uses it on
// another stream must call record_stream. Host memory: the bytes stored, in chunks that are kept
// for the next step (base/memory/pinned_memory.h).

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
  // For tensors on `device`, which must have streams (not the CPU). Without an index: the current
  // device.
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
