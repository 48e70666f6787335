#ifndef MOONRING_MODEL_FILES_LEASED_TENSORS_H_
#define MOONRING_MODEL_FILES_LEASED_TENSORS_H_

// Weights on their way into a file, by lease. Ranks that part a weight take part in each lease of
// it, so the one that writes makes all leases, in order, even where the disk fails halfway: the
// rest at its end. Else the other ranks would wait for it.

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
    } catch (
        const std::exception&) {  // a peer has died: what writes has failed before, and says so
    }
  }

  void Add(std::shared_ptr<base::Parameter> parameter, at::ScalarType dtype) {
    const std::string name = parameter->name();
    Add(std::move(parameter), dtype, name);
  }
  // Under another name in the file.
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
