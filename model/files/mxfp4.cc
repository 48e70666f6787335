#include "model/files/mxfp4.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "model/files/weight_shape.h"

namespace moonring::model {
namespace {

constexpr char kBlocks[] = "_blocks", kScales[] = "_scales";
constexpr int64_t kBytes = 16, kNumbers = 2 * kBytes;  // per block
constexpr int kBias = 127;
constexpr float kValues[] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                             -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

// Dequantises NAME_blocks [E, R, G, 16] and NAME_scales [E, R, G] to NAME [E, 32 G, R] (mxfp4.h).
at::Tensor Dequantised(const at::Tensor& blocks_ERGB, const at::Tensor& scales_ERG) {
  const int64_t experts = blocks_ERGB.size(0), rows = blocks_ERGB.size(1),
                groups = blocks_ERGB.size(2);
  const at::TensorOptions bf16 = at::TensorOptions(at::kBFloat16);
  const at::Tensor result = at::empty({experts, groups * kNumbers, rows}, bf16);
  const at::Tensor part_RC = at::empty({rows, groups * kNumbers}, bf16);
  auto* const out = part_RC.mutable_data_ptr<at::BFloat16>();
  for (int64_t e = 0; e < experts; ++e) {
    const at::Tensor blocks_of = blocks_ERGB.select(0, e).contiguous(),
                     scales_of = scales_ERG.select(0, e).contiguous();
    const auto* const blocks = blocks_of.const_data_ptr<uint8_t>();
    const auto* const scales = scales_of.const_data_ptr<uint8_t>();
    at::parallel_for(0, rows * groups, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) {
        const float scale = std::ldexp(1.0f, static_cast<int>(scales[g]) - kBias);
        for (int64_t b = 0; b < kBytes; ++b) {
          const uint8_t both = blocks[g * kBytes + b];
          out[g * kNumbers + 2 * b] = kValues[both & 15] * scale;
          out[g * kNumbers + 2 * b + 1] = kValues[both >> 4] * scale;
        }
      }
    });
    result.select(0, e).copy_(part_RC.t());
  }
  return result;
}

class Mxfp4Store : public WeightStore {
 public:
  explicit Mxfp4Store(std::unique_ptr<WeightStore> store) : store_(std::move(store)) {}

  absl::Status Describe() {
    weights_ = store_->weights();
    for (const auto& [name, stored] : store_->weights()) {
      const bool blocks = absl::EndsWith(name, kBlocks);
      if (!blocks && !absl::EndsWith(name, kScales)) continue;
      const std::string whole = name.substr(0, name.size() - sizeof(kBlocks) + 1),
                        other = absl::StrCat(whole, blocks ? kScales : kBlocks);
      const auto beside = store_->weights().find(other);
      if (beside == store_->weights().end()) {
        return absl::InvalidArgumentError(
            absl::StrCat(stored.file, ": ", name, ": expected ", other, " too"));
      }
      weights_.erase(name);
      if (!blocks) continue;
      const std::vector<int64_t>& shape = stored.shape;
      if (stored.dtype != "U8" || shape.size() != 4 || shape[3] != kBytes) {
        return absl::InvalidArgumentError(absl::StrCat(stored.file, ": ", name,
                                                       ": expected U8 [E, R, G, 16], found ",
                                                       stored.dtype, " ", ShapeText(shape)));
      }
      const std::vector<int64_t> scales(shape.begin(), shape.end() - 1);
      if (beside->second.dtype != "U8" || beside->second.shape != scales) {
        return absl::InvalidArgumentError(
            absl::StrCat(beside->second.file, ": ", other, ": expected U8 ", ShapeText(scales),
                         ", found ", beside->second.dtype, " ", ShapeText(beside->second.shape)));
      }
      weights_[whole] = {stored.file, {shape[0], shape[2] * kNumbers, shape[1]}, "MXFP4", ""};
    }
    return absl::OkStatus();
  }

  const std::map<std::string, StoredWeight>& weights() const override { return weights_; }

  absl::StatusOr<at::Tensor> Read(const std::string& name) const override {
    if (store_->weights().contains(name)) return store_->Read(name);
    ASSIGN_OR_RETURN(const at::Tensor blocks, store_->Read(absl::StrCat(name, kBlocks)));
    ASSIGN_OR_RETURN(const at::Tensor scales, store_->Read(absl::StrCat(name, kScales)));
    return Dequantised(blocks, scales);
  }

 private:
  std::unique_ptr<WeightStore> store_;
  std::map<std::string, StoredWeight> weights_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WeightStore>> ReadMxfp4(std::unique_ptr<WeightStore> store) {
  auto dequantised = std::make_unique<Mxfp4Store>(std::move(store));
  RETURN_IF_ERROR(dequantised->Describe());
  return dequantised;
}

}  // namespace moonring::model
