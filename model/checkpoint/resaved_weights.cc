#include "model/checkpoint/resaved_weights.h"

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/cat.h>

#include "absl/strings/str_replace.h"
#include "base/status/status_macros.h"
#include "model/config/family.h"
#include "model/config/weights.h"

namespace moonring::model {
namespace {

// Rows [begin, begin + rows) of the concatenation of three tensors.
struct Cut {
  std::array<std::string, 3> of;
  int64_t begin, rows;
};

class ResavedWeights : public WeightStore {
 public:
  ResavedWeights(std::unique_ptr<WeightStore> files, const ModelConfig& config)
      : files_(std::move(files)), weights_(files_->weights()) {
    for (const WeightShape& wanted : WantedWeights(config)) FindModule(wanted.name, config);
    for (int64_t layer = 0; layer < config.layers; ++layer) FindFilters(layer, config);
  }

  bool differ() const { return !modules_.empty() || !cuts_.empty(); }
  std::unique_ptr<WeightStore> TakeFiles() { return std::move(files_); }

  const std::map<std::string, StoredWeight>& weights() const override { return weights_; }

  absl::StatusOr<at::Tensor> Read(const std::string& name) const override {
    if (const auto module = modules_.find(name); module != modules_.end())
      return files_->Read(module->second);
    const auto found = cuts_.find(name);
    if (found == cuts_.end()) return files_->Read(name);
    std::vector<at::Tensor> parts;
    for (const std::string& part : found->second.of) {
      ASSIGN_OR_RETURN(parts.emplace_back(), files_->Read(part));
    }
    return at::cat(parts).narrow(0, found->second.begin, found->second.rows).contiguous();
  }

 private:
  void FindModule(const std::string& name, const ModelConfig& config) {
    if (weights_.contains(name)) return;
    for (const auto& [published, resaved] : config.family->resaved_modules) {
      const std::string other = absl::StrReplaceAll(name, {{published, resaved}});
      const auto found = weights_.find(other);
      if (other == name || found == weights_.end()) continue;
      weights_[name] = std::move(found->second);
      weights_.erase(found);
      modules_[name] = other;
      return;
    }
  }

  void FindFilters(int64_t layer, const ModelConfig& config) {
    Cut cut{
        {WeightName(config, layer, kDeltaQueryFilter), WeightName(config, layer, kDeltaKeyFilter),
         WeightName(config, layer, kDeltaValueFilter)},
        0,
        0};
    int64_t total = 0;
    for (const std::string& name : cut.of) {
      const auto found = weights_.find(name);
      if (found == weights_.end() || found->second.shape.size() != 3) return;
      total += found->second.shape[0];
    }
    const int64_t keys = config.delta.key_heads * config.delta.key_dim,
                  values = config.delta.value_heads * config.delta.value_dim;
    const int64_t third = (total + 2) / 3;  // as torch.chunk divides: the last may be shorter
    const auto rows = [&](int part) { return weights_.at(cut.of[part]).shape[0]; };
    if (keys == third || total != 2 * keys + values || rows(0) != third || rows(1) != third) return;
    for (size_t part = 0; part < cut.of.size(); ++part) {
      cut.rows = part < 2 ? keys : values;
      weights_.at(cut.of[part]).shape[0] = cut.rows;
      cuts_[cut.of[part]] = cut;
      cut.begin += cut.rows;
    }
  }

  std::unique_ptr<WeightStore> files_;
  std::map<std::string, StoredWeight> weights_;
  std::map<std::string, std::string> modules_;  // published weight name -> name in the files
  std::map<std::string, Cut> cuts_;
};

}  // namespace

std::unique_ptr<WeightStore> AsPublished(std::unique_ptr<WeightStore> files,
                                         const ModelConfig& config) {
  auto resaved = std::make_unique<ResavedWeights>(std::move(files), config);
  if (!resaved->differ()) return resaved->TakeFiles();
  return resaved;
}

}  // namespace moonring::model
