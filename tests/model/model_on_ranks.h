#ifndef MOONRING_TESTS_MODEL_MODEL_ON_RANKS_H_
#define MOONRING_TESTS_MODEL_MODEL_ON_RANKS_H_

// A whole model over the documents of a packed stream, by ranks that are threads and share each
// sequence: what all of them give together. The loss is the mean over the stream's targets,
// whatever the dtype in fp32 or fp64.

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

// Labels, unshifted, are the ids.
struct Documents {
  std::vector<int64_t> lengths;
  at::Tensor ids_T;

  int64_t targets() const;
  Documents Alone(size_t document) const;
};

Documents RandomDocuments(std::vector<int64_t> lengths, int64_t vocabulary);

// Weights of a model, the same for the same config: maps of 1 / sqrt(fan in), as training starts
// with; in fp64.
base::Parameters RandomWeights(const ModelConfig& config);

struct Answer {
  double loss = 0;                              // summed over the targets
  at::Tensor hidden_TD;                         // the whole stream's
  std::map<std::string, at::Tensor> gradients;  // of that sum over `divisor`
};

// One rank's copy of the model.
using MakeModel = std::function<std::unique_ptr<Transformer>()>;

// From fp64 weights, cast to the options' weight_dtype.
MakeModel FromWeights(const ModelConfig& config, const base::Parameters& weights,
                      const TransformerOptions& options);

// `strategy` by name; "dense" on one rank.
Answer RunOn(testing::ConnectedRanks& ranks, const std::string& strategy, const MakeModel& make,
             const Documents& documents, int64_t divisor);

}  // namespace moonring::model

#endif  // MOONRING_TESTS_MODEL_MODEL_ON_RANKS_H_
