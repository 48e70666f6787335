#ifndef MOONRING_MODEL_EXPERT_PARTS_H_
#define MOONRING_MODEL_EXPERT_PARTS_H_

// A rank's part of a model's experts, where several ranks share them (comm/bin_exchange.h): of a
// tensor of all experts the rows of its own, of an expert's own matrices all or none. Router and
// shared expert are every rank's.
//
// Forwards of such a model are told who has which (ForwardOptions::expert_ranks), and are calls of
// all those ranks. The gradient of a part is the sum over the ranks that share the experts; over
// others with the same part it is still to be summed.

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "comm/autograd/parameter.h"
#include "comm/bin_exchange.h"
#include "model/config/config.h"

namespace moonring::model {

class ExpertParts {
 public:
  ExpertParts(const ModelConfig& config, const comm::BinExchange& ranks);

  // Whether the weight of that name goes with the experts.
  bool Has(absl::string_view name) const { return parts_.contains(name); }

  // Lets go of the numbers of others' experts: TransformerOptions::on_load. Nothing where the
  // weight does not go with the experts. No communication.
  void Keep(comm::Parameter& parameter) const;

 private:
  static constexpr int64_t kAll = -1;
  struct Rows {
    int64_t first, count;  // of dim 0
  };
  absl::flat_hash_map<std::string, Rows> parts_;  // by published name
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_EXPERT_PARTS_H_
