#include "model/base_packing.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <c10/util/accumulate.h>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "kernels/packed/eight_bit.h"
#include "kernels/packed/four_bit.h"
#include "model/config/block_weights.h"
#include "model/config/weights.h"

namespace moonring::model {

absl::StatusOr<BasePacking> PackingNamed(absl::string_view name) {
  BasePacking packing;
  if (name == "file") return packing;
  if (name == "int8") {
    packing.code = std::make_shared<kernels::EightBitCode>();
    return packing;
  }
  for (const bool twice : {false, true}) {
    for (const auto bits : {kernels::FourBits::kNf4, kernels::FourBits::kFp4}) {
      auto code = std::make_shared<kernels::FourBitCode>(bits, twice);
      if (code->name() == name) packing.code = std::move(code);
    }
  }
  if (packing.code == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pack: expected nf4, fp4, nf4 double, fp4 double, int8 or file, got '", name, "'"));
  }
  return packing;
}

std::vector<WeightShape> PackedWeights(const ModelConfig& config) {
  std::set<std::string> in_blocks;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (int place = 0; place < WeightPlaces(config, layer); ++place) {
      if (place != kRouter) in_blocks.insert(WeightName(config, layer, place));
    }
  }
  std::vector<WeightShape> packed;
  for (WeightShape& weight : WantedWeights(config)) {
    if (weight.linear && !weight.wide && weight.learns && weight.shape.size() == 2 &&
        in_blocks.contains(weight.name))
      packed.push_back(std::move(weight));
  }
  return packed;
}

absl::StatusOr<Packed> Pack(const Checkpoint& checkpoint, const std::string& name,
                            const BasePacking& packing) {
  Packed packed{packing.code, {}};
  if (packing.code == nullptr) {
    packed.code = checkpoint.CodeOf(name);
    if (packed.code == nullptr) return packed;
    ASSIGN_OR_RETURN(packed.weight, checkpoint.LoadPacked(name));
    return packed;
  }
  ASSIGN_OR_RETURN(const at::Tensor weight, checkpoint.Load(name, packing.dtype));
  ASSIGN_OR_RETURN(packed.weight, packing.code->Pack(weight), name);
  return packed;
}

absl::StatusOr<PackedSize> SizeOfPacked(const Checkpoint& checkpoint, const BasePacking& packing) {
  const ModelConfig& config = checkpoint.config();
  std::map<std::string, int64_t> layer_of;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (int place = 0; place < WeightPlaces(config, layer); ++place)
      layer_of[WeightName(config, layer, place)] = layer;
  }
  PackedSize size;
  std::map<int64_t, std::pair<int64_t, int64_t>> layers;  // by layer: numbers, bytes
  for (const WeightShape& weight : PackedWeights(config)) {
    const auto code = packing.code != nullptr ? packing.code : checkpoint.CodeOf(weight.name);
    if (code == nullptr) continue;
    const int64_t numbers = c10::multiply_integers(weight.shape);
    int64_t bytes = 0;
    RETURN_IF_ERROR(base::TryTorch([&] { bytes = code->PackedBytes(weight.shape); }), weight.name);
    size.numbers += numbers;
    size.bytes += bytes;
    auto& [layer_numbers, layer_bytes] = layers[layer_of.at(weight.name)];
    layer_numbers += numbers;
    layer_bytes += bytes;
    size.layer_numbers = std::max(size.layer_numbers, layer_numbers);
    size.layer_bytes = std::max(size.layer_bytes, layer_bytes);
  }
  return size;
}

}  // namespace moonring::model
