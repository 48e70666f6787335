#ifndef MOONRING_MODEL_BLOCKS_ACTIVATION_STORE_H_
#define MOONRING_MODEL_BLOCKS_ACTIVATION_STORE_H_

// Stores activations between forward and backward outside the compute device's memory. Get returns
// exactly the bits that Put received. A store is used by one thread. Implementations: disk_store.h
// and host_store.h.

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

namespace moonring::model {

class StoredActivation {
 public:
  virtual ~StoredActivation() = default;  // frees it; tensors from Get stay valid
  virtual at::Tensor Get() = 0;           // read-only; may be called repeatedly. Throws StatusError
};

class ActivationStore {
 public:
  virtual ~ActivationStore() = default;
  // Stores `activation`. The caller must not keep a reference to the tensor, so that its memory is
  // freed once it is stored. Throws StatusError.
  virtual std::unique_ptr<StoredActivation> Put(at::Tensor activation) = 0;
  virtual int64_t stored_bytes() const = 0;  // bytes that are stored at present
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_ACTIVATION_STORE_H_
