#ifndef MOONRING_MODEL_BLOCKS_ACTIVATION_STORE_H_
#define MOONRING_MODEL_BLOCKS_ACTIVATION_STORE_H_

// Where activations wait between forward and backward, out of the memory that computes. What comes
// back has the bits that went in. A store serves one caller's thread. disk_store.h and host_store.h
// have them.

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

namespace moonring::model {

class StoredActivation {
 public:
  virtual ~StoredActivation() = default;  // gives up the place; tensors that Get gave stay
  virtual at::Tensor Get() = 0;  // not to be written to; any number of times. Throws StatusError
};

class ActivationStore {
 public:
  virtual ~ActivationStore() = default;
  // The caller gives its tensor up: it is freed once it is stored. Throws StatusError.
  virtual std::unique_ptr<StoredActivation> Put(at::Tensor activation) = 0;
  virtual int64_t stored_bytes() const = 0;  // now
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_ACTIVATION_STORE_H_
