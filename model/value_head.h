#ifndef MOONRING_MODEL_VALUE_HEAD_H_
#define MOONRING_MODEL_VALUE_HEAD_H_

// The head of a reward model: one number per token, hidden . w + b, as TRL's
// AutoModelForCausalLMWithValueHead has it and LLaMA-Factory saves it.
//
//   value_head.safetensors    v_head.summary.weight [1, D], v_head.summary.bias [1], next to the
//                             model's (or the adapter's) weights
//   initial values            both U(-1/sqrt(D), 1/sqrt(D)) by seed, as torch.nn.Linear
//   dropout                   summary_dropout_prob of config.json, 0.1 if it is absent
//
// A ValueHead only stores two Parameters and the dropout rate; the code in objectives/ computes the
// values.

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
  bool found = false;  // true: read from a file

  // Reads value_head.safetensors in `dir` (INVALID_ARGUMENT if it does not fit this model). If
  // there is no such file, returns a head with initial values.
  static absl::StatusOr<std::shared_ptr<ValueHead>> Open(const std::string& dir,
                                                         const ModelConfig& config, uint64_t seed,
                                                         at::ScalarType dtype, at::Device device);

  // Writes value_head.safetensors into `dir`. Fails only if the disk fails.
  absl::Status Save(const std::string& dir, Flush flush = Flush::kNow) const;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_VALUE_HEAD_H_
