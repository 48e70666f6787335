#ifndef MOONRING_MODEL_BLOCKS_HOST_STORE_H_
#define MOONRING_MODEL_BLOCKS_HOST_STORE_H_

// Activations of a GPU in pinned memory of its host:
//
//   Put     copies on a stream of the store's own, behind what the caller's stream has been given
//           so far. The caller's stream does not wait, unless three tensors are on their way out
//           already: then for the first of them, whose memory it has back with that
//   Get     gives what was fetched ahead, or fetches it, and begins to fetch what was put last
//           before it, as a backward takes activations in reverse. The caller's stream waits for
//           the copy
//
// The host waits for nothing. GPU memory: three tensors on their way out; or one being used and one
// fetched ahead. It is the memory of the stream that is current at Put and Get: one that the caller
// uses elsewhere is recorded there by the caller. Host: the bytes of what is stored, in chunks that
// are kept for the next step (base/memory/pinned_memory.h).

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
