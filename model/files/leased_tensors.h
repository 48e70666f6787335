#ifndef MOONRING_MODEL_FILES_LEASED_TENSORS_H_
#define MOONRING_MODEL_FILES_LEASED_TENSORS_H_

// Weights to be written into a file. A weight's value is fetched only when it is written (a lease).
// Fetching a sharded weight is a collective call, so the rank that writes must fetch all weights,
// in order. If the disk fails halfway, the destructor fetches the remaining weights; otherwise the
// other ranks would wait in those collective calls.

#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/autograd/parameter.h"
#include "model/files/safetensors_writer.h"

namespace moonring::model {

class LeasedTensors {
 public:
  LeasedTensors() = default;
  LeasedTensors(const LeasedTensors&) = delete;
  LeasedTensors& operator=(const LeasedTensors&) = delete;
  ~LeasedTensors() {
    try {
      for (; leased_ < parameters_.size(); ++leased_) {
        if (parameters_[leased_]->is_spread())
          parameters_[leased_]->LeaseWhole(tensors_[leased_].dtype);
      }
      // A lease throws if another rank has died. Writing has then already failed, and that error is
      // reported.
    } catch (const std::exception&) {
    }
  }

  void Add(std::shared_ptr<base::Parameter> parameter, at::ScalarType dtype) {
    const std::string name = parameter->name();
    Add(std::move(parameter), dtype, name);
  }
  // Adds a parameter, under `name` in the file.
  void Add(std::shared_ptr<base::Parameter> parameter, at::ScalarType dtype, std::string name) {
    tensors_.push_back(
        {std::move(name), parameter->shape().vec(), dtype,
         [this, of = parameter.get(), dtype] { return ++leased_, of->LeaseWhole(dtype); }});
    parameters_.push_back(std::move(parameter));
  }
  const std::vector<TensorToWrite>& tensors() const { return tensors_; }

 private:
  base::Parameters parameters_;
  std::vector<TensorToWrite> tensors_;
  size_t leased_ = 0;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_LEASED_TENSORS_H_
