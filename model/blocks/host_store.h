#ifndef MOONRING_MODEL_BLOCKS_HOST_STORE_H_
#define MOONRING_MODEL_BLOCKS_HOST_STORE_H_

// Stores a GPU's activations in pinned host memory:
//
//   Put     copies on the store's own CUDA stream, after all work queued on the caller's stream.
//           The caller's stream does not wait, unless three tensors are already being copied out:
//           then it waits for the first of them, whose memory is free after that
//   Get     returns the tensor if it was prefetched, or fetches it; then starts to prefetch the
//           tensor stored before it, because a backward uses activations in reverse order. The
//           caller's stream waits for the copy
//
// The CPU never waits. GPU memory: in the forward, three tensors that are being copied out; in the
// backward, one tensor in use and one prefetched. A tensor returned by Get belongs to the stream
// that is current at Get; a caller that uses the tensor on another stream must call record_stream.
// CPU memory: the bytes stored, in chunks that are reused in the next step
// (base/memory/pinned_memory.h).

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
  // Stores tensors of `device`, which must be a GPU. If `device` has no index, it is the current
  // GPU.
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
