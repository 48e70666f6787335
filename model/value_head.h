#ifndef MOONRING_MODEL_VALUE_HEAD_H_
#define MOONRING_MODEL_VALUE_HEAD_H_

// The head of a reward model: one number a token, hidden . w + b, as TRL's
// AutoModelForCausalLMWithValueHead has it and LLaMA-Factory keeps it.
//
//   value_head.safetensors    v_head.summary.weight [1, D], v_head.summary.bias [1], beside the
//                             model's (or the adapter's) weights
//   at first                  both U(-1/sqrt(D), 1/sqrt(D)) by seed, torch.nn.Linear's
//   dropout                   summary_dropout_prob of config.json, 0.1 where it says none
//
// The head is two Parameters and a rate; objectives apply it.

#include <cstdint>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/autograd/parameter.h"
#include "model/config/config.h"
#include "model/files/staged_files.h"

namespace moonring::model {

struct ValueHead {
  std::shared_ptr<base::Parameter> weight_1D, bias_1;
  double dropout = 0.1;
  bool found = false;  // read from a file

  // From `dir` where the file is there (INVALID_ARGUMENT where it is not this model's), else new
  // ones.
  static absl::StatusOr<std::shared_ptr<ValueHead>> Open(const std::string& dir,
                                                         const ModelConfig& config, uint64_t seed,
                                                         at::ScalarType dtype, at::Device device);

  // Statuses are the disk's.
  absl::Status Save(const std::string& dir, Flush flush = Flush::kNow) const;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_VALUE_HEAD_H_
