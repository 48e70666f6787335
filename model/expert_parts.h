#ifndef MOONRING_MODEL_EXPERT_PARTS_H_
#define MOONRING_MODEL_EXPERT_PARTS_H_

// The shard of a model's experts that one rank keeps under expert parallelism
// (comm/bin_exchange.h). Of a tensor that stacks all experts it keeps the rows of its experts; of
// the matrices of a single expert it keeps all rows or none. Router and shared expert are
// replicated.
//
// TransformerOptions::expert_ranks sets the assignment when a model is loaded; its forwards are
// then collective over these ranks. The gradient of a shard already includes the tokens of all
// ranks among which the experts are divided; it still has to be summed over the ranks that have a
// replica of the same shard.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/autograd/parameter.h"
#include "comm/bin_exchange.h"
#include "comm/communicator.h"
#include "model/adapter.h"
#include "model/config/config.h"

namespace moonring::model {

class ExpertParts {
 public:
  ExpertParts(const ModelConfig& config, const comm::BinExchange& ranks);

  // Whether the weight of that name belongs to the experts that are divided among ranks.
  bool Has(absl::string_view name) const { return parts_.contains(name); }

  // Frees the rows of other ranks' experts. Does nothing if the weight does not belong to the
  // experts. No communication.
  void Keep(base::Parameter& parameter) const;

  // INVALID_ARGUMENT if the adapter adapts or fully trains a weight of an expert.
  absl::Status Check(const AdapterPlan& adapter) const;

 private:
  struct Place {
    int64_t expert;  // the expert that the weight belongs to; -1: it stacks all experts
  };
  std::shared_ptr<comm::Communicator> group_;
  std::vector<int64_t> border_;  // first expert of each rank, then the number of experts
  absl::flat_hash_map<std::string, Place> parts_;  // by published name
};

// Number of layers that have experts, and number of parameters of all experts.
struct ExpertSize {
  int64_t layers = 0, parameters = 0;
};
ExpertSize SizeOfExperts(const ModelConfig& config);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_EXPERT_PARTS_H_
