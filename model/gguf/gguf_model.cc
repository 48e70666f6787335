#include "model/gguf/gguf_model.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status/status_macros.h"
#include "model/config/family.h"
#include "model/families/parse_config.h"
#include "model/files/weight_shape.h"
#include "model/gguf/gguf_code.h"
#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_layout.h"
#include "model/gguf/gguf_parts.h"
#include "model/gguf/gguf_types.h"

namespace moonring::model {
namespace {

// Whether a tensor is not a weight but part of the config (factors of the rotary embedding).
bool IsOfConfig(const std::string& tensor) {
  return tensor == kRopeFrequencies || tensor == kRopeLongFactors || tensor == kRopeShortFactors;
}

// The number N of a tensor "blk.N.name"; -1 for other names.
int64_t BlockOf(absl::string_view tensor) {
  int64_t block = -1;
  if (!absl::ConsumePrefix(&tensor, "blk.") ||
      !absl::SimpleAtoi(tensor.substr(0, tensor.find('.')), &block))
    return -1;
  return std::max<int64_t>(block, -1);
}

}  // namespace

std::vector<int64_t> GgufModel::ShapeOf(const GgufSource& source) const {
  const std::vector<int64_t>& first = file_->tensors().at(source.tensors[0]).shape;
  const std::vector<int64_t>& last = file_->tensors().at(source.tensors.back()).shape;
  const bool three = first.size() == 3;
  switch (source.parts) {
    case GgufParts::kOne:
      return first;
    case GgufParts::kExpert:
      if (!three || source.expert >= first[0]) return {};
      return {first[1], first[2]};
    case GgufParts::kKvHeads: {
      std::vector<int64_t> shape = first;
      for (size_t i = 1; i < source.tensors.size(); ++i) {
        const std::vector<int64_t>& more = file_->tensors().at(source.tensors[i]).shape;
        if (more.empty() || shape.empty()) return {};
        shape[0] += more[0];
      }
      return shape;
    }
    case GgufParts::kTransposed:
      if (!three) return {};
      return {first[0], first[2], first[1]};
    case GgufParts::kHalves:
      if (first != last || !three) return {};
      return {first[0], 2 * first[1], first[2]};
    case GgufParts::kTurns:
      if (first != last || (!three && first.size() != 2)) return {};
      if (three) return {first[0], first[2], 2 * first[1]};
      return {first[0], 2 * first[1]};
    case GgufParts::kKeyValueUp:
      if (!three || last.size() != 3 || first[0] != last[0] || first[1] != last[2]) return {};
      return {first[0] * (first[2] + last[1]), first[1]};
    case GgufParts::kRow:
      if (first.size() != 1) return first;
      return {1, first[0]};
    case GgufParts::kTaps:
      if (first.size() != 2) return first;
      return {first[0], 1, first[1]};
    case GgufParts::kKeyHeads: {
      const DeltaRule& rule = config_.delta;
      const bool fit = first.size() == 2 && last.size() == 2 && first[1] == last[1] &&
                       first[0] == 2 * rule.keys() + rule.values() && last[0] == rule.values();
      if (!fit) return {};
      return {first[0] + last[0], first[1]};
    }
  }
  return {};
}

// Adds a weight. Does nothing if some of its tensors are missing: Checkpoint then reports that the
// weight is missing.
void GgufModel::Add(const std::string& name, GgufSource source) {
  StoredWeight stored{file_->path(), {}, "", ""};
  for (const std::string& tensor : source.tensors) {
    const auto found = file_->tensors().find(tensor);
    if (found == file_->tensors().end()) return;
    const GgufType& type = *FindGgufType(found->second.type);
    stored.dtype = type.name;
    if (!type.readable()) stored.unreadable = UnreadableGgufType(type);
  }
  stored.shape = ShapeOf(source);
  weights_[name] = std::move(stored);
  sources_[name] = std::move(source);
}

absl::StatusOr<std::unique_ptr<GgufModel>> GgufModel::Open(std::shared_ptr<const GgufFile> file) {
  std::unique_ptr<GgufModel> model(new GgufModel(std::move(file)));
  ASSIGN_OR_RETURN(const std::string text, ConfigFromGguf(model->file()));
  ASSIGN_OR_RETURN(model->config_, ParseConfig(text, model->file().path()));
  const ModelConfig& config = model->config_;
  const auto has = [&](const std::string& tensor) {
    return model->file().tensors().contains(tensor);
  };
  for (auto& [name, source] : GgufSources(config, has)) model->Add(name, std::move(source));
  std::set<std::string> used;
  for (const auto& [name, source] : model->sources_)
    used.insert(source.tensors.begin(), source.tensors.end());
  ASSIGN_OR_RETURN(const int64_t predicting, PredictingLayers(model->file()));
  // A tensor that belongs to no weight is listed under its GGUF name, so that it is reported as
  // unused.
  for (const auto& [tensor, entry] : model->file().tensors()) {
    const int64_t beyond = BlockOf(tensor) - config.layers;
    if (used.contains(tensor) || IsOfConfig(tensor) || (beyond >= 0 && beyond < predicting))
      continue;
    model->Add(tensor, {.tensors = {tensor}});
  }
  return model;
}

absl::StatusOr<const GgufSource*> GgufModel::FindSource(const std::string& name) const {
  const auto found = sources_.find(name);
  if (found == sources_.end())
    return absl::NotFoundError(absl::StrCat(file_->path(), ": no tensor '", name, "'"));
  const GgufSource& source = found->second;
  if (weights_.at(name).shape.empty() && source.parts != GgufParts::kOne) {
    return absl::InvalidArgumentError(absl::StrCat(file_->path(), ": ",
                                                   absl::StrJoin(source.tensors, " and "),
                                                   " do not have the shapes of ", name));
  }
  return &source;
}

absl::StatusOr<std::vector<at::Tensor>> GgufModel::ReadTensors(const GgufSource& source,
                                                               bool blocks) const {
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < source.tensors.size(); ++i) {
    const std::string& name = source.tensors[i];
    ASSIGN_OR_RETURN(const at::Tensor stored, blocks ? file_->ReadBlocks(name) : file_->Read(name));
    tensors.push_back(stored);
    const int64_t heads = i < source.interleaved_heads.size() ? source.interleaved_heads[i] : 0;
    if (heads == 0) continue;
    if (stored.size(0) % (2 * heads) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(file_->path(), ": ", name, ": ",
                                                     stored.size(0), " rows for ", heads,
                                                     " heads of an even size"));
    }
    tensors.back() = RowsAsPublished(stored, heads);
  }
  return tensors;
}

absl::StatusOr<at::Tensor> GgufModel::Read(const std::string& name) const {
  ASSIGN_OR_RETURN(const GgufSource* found, FindSource(name));
  const GgufSource& source = *found;
  const std::vector<int64_t>& shape = weights_.at(name).shape;
  if (source.parts == GgufParts::kExpert) return file_->ReadSlice(source.tensors[0], source.expert);
  ASSIGN_OR_RETURN(const std::vector<at::Tensor> tensors, ReadTensors(source, /*blocks=*/false));
  if (source.tiled.has_value()) {
    const GgufValueHeads& heads = *source.tiled;
    const at::Tensor& tensor = tensors[0];
    if (tensor.dim() <= heads.dim ||
        tensor.size(heads.dim) != heads.first + config_.delta.value_heads * heads.width) {
      return absl::InvalidArgumentError(absl::StrCat(file_->path(), ": ", source.tensors[0],
                                                     " does not have the shape of ", name));
    }
  }
  return FromGguf(config_, source, tensors, shape);
}

const GgufType* GgufModel::BlocksOf(const std::string& name) const {
  const absl::StatusOr<const GgufSource*> found = FindSource(name);
  if (!found.ok()) return nullptr;
  const GgufSource& source = **found;
  const bool whole_rows = source.parts == GgufParts::kOne || source.parts == GgufParts::kExpert ||
                          source.parts == GgufParts::kKvHeads;
  if (!whole_rows || source.norm) return nullptr;
  const uint32_t id = file_->tensors().at(source.tensors[0]).type;
  for (const std::string& tensor : source.tensors) {
    if (file_->tensors().at(tensor).type != id) return nullptr;
  }
  const GgufType& type = *FindGgufType(id);
  return type.readable() && type.elements > 1 ? &type : nullptr;
}

std::shared_ptr<const kernels::WeightCode> GgufModel::CodeOf(const std::string& name) const {
  const GgufType* type = BlocksOf(name);
  return type == nullptr ? nullptr : std::make_shared<GgufCode>(*type);
}

absl::StatusOr<kernels::PackedWeight> GgufModel::ReadPacked(const std::string& name) const {
  ASSIGN_OR_RETURN(const GgufSource* source, FindSource(name));
  const StoredWeight& stored = weights_.at(name);
  if (BlocksOf(name) == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat(file_->path(), ": ", name, " in ", stored.dtype, " cannot stay packed"));
  }
  at::Tensor blocks;
  if (source->parts == GgufParts::kExpert) {
    ASSIGN_OR_RETURN(blocks, file_->ReadBlocksOfSlice(source->tensors[0], source->expert));
  } else {
    ASSIGN_OR_RETURN(const std::vector<at::Tensor> tensors, ReadTensors(*source, /*blocks=*/true));
    blocks = source->parts == GgufParts::kKvHeads ? ByKvHeads(config_, tensors) : tensors[0];
  }
  return kernels::PackedWeight{{blocks.reshape({-1})}, stored.shape};
}

}  // namespace moonring::model
