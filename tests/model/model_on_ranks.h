#ifndef MOONRING_TESTS_MODEL_MODEL_ON_RANKS_H_
#define MOONRING_TESTS_MODEL_MODEL_ON_RANKS_H_

// Runs a whole model on a packed stream over ranks that are threads and share each sequence, and
// joins the ranks' results. The loss is the mean over the stream's targets, in fp32 or fp64
// whatever the model's dtype.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"
#include "model/config/config.h"
#include "model/transformer.h"
#include "tests/testing/connected_ranks.h"

namespace moonring::model {

// A packed stream. The token ids are also the (unshifted) labels.
struct Documents {
  std::vector<int64_t> lengths;
  at::Tensor ids_T;

  int64_t targets() const;
  Documents Alone(size_t document) const;
};

Documents RandomDocuments(std::vector<int64_t> lengths, int64_t vocabulary);

// Returns random weights in fp64 that only depend on the config: matrices of scale 1 / sqrt(fan
// in), as at the start of training.
base::Parameters RandomWeights(const ModelConfig& config);

struct Answer {
  double loss = 0;                              // summed over the targets
  at::Tensor hidden_TD;                         // of the whole stream
  std::map<std::string, at::Tensor> gradients;  // of loss / divisor
};

// Creates one rank's copy of the model.
using MakeModel = std::function<std::unique_ptr<Transformer>()>;

// Returns a function that creates the model from fp64 weights, cast to the weight_dtype of
// `options`.
MakeModel FromWeights(const ModelConfig& config, const base::Parameters& weights,
                      const TransformerOptions& options);

// Runs the model with the strategy of this name; "dense" means one rank.
Answer RunOn(testing::ConnectedRanks& ranks, const std::string& strategy, const MakeModel& make,
             const Documents& documents, int64_t divisor);

}  // namespace moonring::model

#endif  // MOONRING_TESTS_MODEL_MODEL_ON_RANKS_H_
