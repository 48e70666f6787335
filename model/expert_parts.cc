#include "model/expert_parts.h"

#include <numeric>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include "absl/strings/str_cat.h"
#include "base/status/torch_status.h"
#include "model/config/block_weights.h"
#include "model/config/weights.h"

namespace moonring::model {
namespace {

constexpr int64_t kOfAll = -1;

// Calls body(name, layer, expert) for each weight of the experts. `expert` is kOfAll for a tensor
// that stacks all experts of a layer.
template <typename Body>
void ForExpertWeights(const ModelConfig& config, const Body& body) {
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (int place = 0; place < WeightPlaces(config, layer); ++place) {
      const std::string name = WeightName(config, layer, place);
      if (name.empty()) continue;
      if (place >= kBlockWeights) {
        body(name, layer, (place - kBlockWeights) / kExpertWeights);
      } else if (FactsOf(place).kind == WeightKind::kStack) {
        body(name, layer, kOfAll);
      }
    }
  }
}

class GatheredRows : public base::RowsOfAll {
 public:
  GatheredRows(std::shared_ptr<comm::Communicator> group, std::vector<int64_t> rows_of_rank)
      : group_(std::move(group)), rows_of_rank_(std::move(rows_of_rank)) {}

  at::Tensor Join(const at::Tensor& mine) override {
    std::vector<int64_t> shape = mine.sizes().vec();
    shape[0] = std::accumulate(rows_of_rank_.begin(), rows_of_rank_.end(), int64_t{0});
    const auto here = rows_of_rank_.begin() + group_->rank();
    const at::Tensor whole = at::empty(shape, mine.options());
    whole.narrow(0, std::accumulate(rows_of_rank_.begin(), here, int64_t{0}), *here).copy_(mine);
    base::ThrowIfError(base::ValueOrThrow(group_->StartAllGather({{whole, rows_of_rank_}})).Wait());
    return whole;
  }

 private:
  std::shared_ptr<comm::Communicator> group_;
  std::vector<int64_t> rows_of_rank_;
};

}  // namespace

ExpertParts::ExpertParts(const ModelConfig& config, const comm::BinExchange& ranks)
    : group_(ranks.group()), border_(ranks.border()) {
  ForExpertWeights(
      config, [&](const std::string& name, int64_t, int64_t expert) { parts_[name] = {expert}; });
}

void ExpertParts::Keep(base::Parameter& parameter) const {
  const auto part = parts_.find(parameter.name());
  if (part == parts_.end()) return;
  const int64_t expert = part->second.expert, rank = group_->rank();
  std::vector<int64_t> rows;  // rows that each rank keeps
  for (size_t r = 0; r + 1 < border_.size(); ++r) {
    const bool has = expert >= border_[r] && expert < border_[r + 1];
    rows.push_back(expert == kOfAll ? border_[r + 1] - border_[r]
                                    : (has ? parameter.shape()[0] : 0));
  }
  const int64_t first = expert == kOfAll ? border_[rank] : 0, count = rows[rank];
  parameter.KeepRows(first, count, std::make_shared<GatheredRows>(group_, std::move(rows)));
}

absl::Status ExpertParts::Check(const AdapterPlan& adapter) const {
  std::string found;
  for (const AdapterPlan::Map& map : adapter.maps) {
    if (found.empty() && Has(absl::StrCat(map.module, ".weight"))) found = map.module;
  }
  for (const WeightShape& weight : adapter.saved) {
    if (found.empty() && Has(weight.name)) found = weight.name;
  }
  if (found.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expert_parallel_size: experts of several ranks take no adapter, expected a "
                   "lora_target without theirs, got ",
                   found));
}

ExpertSize SizeOfExperts(const ModelConfig& config) {
  absl::flat_hash_map<std::string, int64_t> numbers;
  for (const WeightShape& weight : WantedWeights(config))
    numbers[weight.name] = c10::multiply_integers(weight.shape);
  ExpertSize size;
  int64_t last = -1;
  ForExpertWeights(config, [&](const std::string& name, int64_t layer, int64_t) {
    size.parameters += numbers.at(name);
    size.layers += layer != last ? 1 : 0;
    last = layer;
  });
  return size;
}

}  // namespace moonring::model
