#ifndef MOONRING_MODEL_CHECKPOINT_FRESH_WEIGHTS_H_
#define MOONRING_MODEL_CHECKPOINT_FRESH_WEIGHTS_H_

// Random initial weights for a model, determined by its config and a seed, with the distributions
// of Transformers:
//
//   matrices, convolutions, routers, sinks     N(0, s^2), s = initializer_range (0.02)
//   embeddings                                 N(0, s^2); 0 in the row of the padding token
//   norms                                      1; 0 if a norm multiplies by 1 + w
//   biases, a router's correction              0; a bias of gpt-oss's router N(0, s^2)
//   other scales by feature, head or layer     1
//   a delta rule's decay                       log A, A uniform
//   a state space's decay                      log of 1, 2, .. heads
//   the shift of either decay                  1, or the inverse of softplus of dt, log dt uniform
//
// FreshRule has the bounds of A and dt. A value is a function of (seed, the weight's name, its
// index in the weight) alone (kernels/random): the same bits on every rank, with any sharding, in
// any order of reading. Normal values are computed in pairs, s sqrt(-2 log(1 - u)) (cos 2 pi v, sin
// 2 pi v), from uniform u and v, so |value| <= 5.8 s. Read computes the whole weight in fp32;
// nothing is cached.

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/files/weight_store.h"

namespace moonring::model {

// Distribution of the initial values of a weight.
struct FirstValues {
  enum class Kind {
    kConstant,  // equal to a
    kNormal,    // standard deviation a
    kUniform,   // between -a and a
    kLogRate,   // log of a uniform number between a and b
    kLogCount,  // log of 1, 2, .. per head
    kStep,      // inverse softplus of max(exp of a uniform number between log a and log b, floor)
  };
  Kind kind = Kind::kConstant;
  double a = 0.0, b = 0.0, floor = 0.0;
  int64_t zero_row = -1;  // row of an embedding that is all zeros; -1: none
};

class FreshWeights : public WeightStore {
 public:
  // `file`: path of the config, for messages. INVALID_ARGUMENT if bounds in the config are invalid.
  static absl::StatusOr<std::unique_ptr<FreshWeights>> Create(const ModelConfig& config,
                                                              const std::string& file,
                                                              uint64_t seed);

  const std::map<std::string, StoredWeight>& weights() const override { return weights_; }
  absl::StatusOr<at::Tensor> Read(const std::string& name) const override;

 private:
  explicit FreshWeights(uint64_t seed) : seed_(seed) {}

  uint64_t seed_;
  std::map<std::string, StoredWeight> weights_;
  std::map<std::string, FirstValues> first_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_FRESH_WEIGHTS_H_
