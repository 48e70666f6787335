#ifndef MOONRING_MODEL_EXPERT_PARTS_H_
#define MOONRING_MODEL_EXPERT_PARTS_H_

// A rank's part of a model's experts, where several ranks share them (comm/bin_exchange.h): of a
// tensor of all experts the rows of its own, of an expert's own matrices all or none. Router and
// shared expert are every rank's.
//
// A model is told who has which as it is loaded (TransformerOptions::expert_ranks); its forwards
// are calls of all those ranks then. The gradient of a part is the sum over the ranks that share
// the experts; over others with the same part it is still to be summed.

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

  // Whether the weight of that name goes with the experts.
  bool Has(absl::string_view name) const { return parts_.contains(name); }

  // Lets go of the numbers of others' experts. Nothing where the weight does not go with the
  // experts. No communication.
  void Keep(base::Parameter& parameter) const;

  // INVALID_ARGUMENT where an adapter would be on an expert, or train one whole.
  absl::Status Check(const AdapterPlan& adapter) const;

 private:
  struct Place {
    int64_t expert;  // whose own the weight is; -1: it is of all
  };
  std::shared_ptr<comm::Communicator> group_;
  std::vector<int64_t> border_;                    // of the ranks' experts
  absl::flat_hash_map<std::string, Place> parts_;  // by published name
};

// What of a model goes with its experts.
struct ExpertSize {
  int64_t layers = 0, parameters = 0;
};
ExpertSize SizeOfExperts(const ModelConfig& config);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_EXPERT_PARTS_H_
