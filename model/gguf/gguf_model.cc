#include "model/gguf/gguf_model.h"

#include <array>
#include <set>
#include <utility>

#include "ATen/TensorOperators.h"
#include "ATen/ops/cat.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "comm/status/status_macros.h"
#include "model/config/family.h"
#include "model/config/weights.h"
#include "model/families/parse_config.h"
#include "model/files/weight_shape.h"
#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_types.h"

namespace moonring::model {
namespace {

// What GGUF calls a map or a norm of a block.
absl::string_view GgufName(int place) {
  switch (place) {
    case kInputNorm:
      return "attn_norm";
    case kQuery:
      return "attn_q";
    case kKey:
      return "attn_k";
    case kValue:
      return "attn_v";
    case kQueryKeyValue:
      return "attn_qkv";
    case kQueryNorm:
      return "attn_q_norm";
    case kKeyNorm:
      return "attn_k_norm";
    case kOutput:
      return "attn_output";
    case kAttentionNorm:
      return "post_attention_norm";
    case kMlpInputNorm:
      return "ffn_norm";
    case kGate:
      return "ffn_gate";
    case kUp:
    case kGateUp:
      return "ffn_up";
    case kDown:
      return "ffn_down";
    case kRouter:
      return "ffn_gate_inp";
    case kSharedGate:
      return "ffn_gate_shexp";
    case kSharedUp:
      return "ffn_up_shexp";
    case kSharedDown:
      return "ffn_down_shexp";
    case kSharedSwitch:
      return "ffn_gate_inp_shexp";
    case kMlpNorm:
      return "post_ffw_norm";
    case kConvolutionInput:
      return "shortconv.in_proj";
    case kConvolutionFilter:
      return "shortconv.conv";
    case kConvolutionOutput:
      return "shortconv.out_proj";
    default:
      return "";
  }
}

constexpr const char* kExperts[kExpertWeights] = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};

// Tensors that the config was made of.
bool IsOfConfig(const std::string& tensor) {
  return tensor == "rope_freqs.weight" || tensor == "rope_factors_long.weight" ||
         tensor == "rope_factors_short.weight";
}

}  // namespace

GgufModel::Source GgufModel::SourceOf(int64_t layer, int place) const {
  const std::string block = absl::StrCat("blk.", layer, ".");
  if (place >= kBlockWeights) {
    return {{absl::StrCat(block, kExperts[(place - kBlockWeights) % kExpertWeights], ".weight")},
            (place - kBlockWeights) / kExpertWeights,
            false,
            {0}};
  }
  const int named = IsBias(place) ? MapOfBias(place) : place;
  const char* const kind = IsBias(place) ? ".bias" : ".weight";
  const bool interleaved = config_.family->gguf.interleaved_heads;
  const auto heads = [&](int map) {
    return !interleaved ? 0 : map == kQuery ? config_.heads : map == kKey ? config_.kv_heads : 0;
  };
  if (named == kQueryKeyValue && config_.family->qkv_rows == QkvRows::kGrouped) {
    Source source;
    for (const int map : {kQuery, kKey, kValue}) {
      source.tensors.push_back(absl::StrCat(block, GgufName(map), kind));
      source.interleaved_heads.push_back(heads(map));
    }
    return source;
  }
  return {{absl::StrCat(block, GgufName(named), kind)},
          -1,
          IsNorm(place),
          {heads(named)},
          FactsOf(place).kind == WeightKind::kFilter};
}

// A weight whose tensors are not all there is not added: the checkpoint names what it misses.
void GgufModel::Add(const std::string& name, Source source) {
  StoredWeight stored{file_->path(), {}, "", ""};
  for (const std::string& tensor : source.tensors) {
    const auto found = file_->tensors().find(tensor);
    if (found == file_->tensors().end()) return;
    const GgufType& type = *FindGgufType(found->second.type);
    stored.dtype = type.name;
    if (!type.readable()) stored.unreadable = UnreadableGgufType(type);
    if (stored.shape.empty()) {
      stored.shape = found->second.shape;
    } else if (!found->second.shape.empty()) {
      stored.shape[0] += found->second.shape[0];
    }
  }
  if (source.expert >= 0 && stored.shape.size() == 3 && source.expert < stored.shape[0])
    stored.shape.erase(stored.shape.begin());
  if (absl::EndsWith(source.tensors[0], "ffn_gate_inp_shexp.weight") && stored.shape.size() == 1)
    stored.shape.insert(stored.shape.begin(), 1);
  if (source.taps && stored.shape.size() == 2) stored.shape.insert(stored.shape.begin() + 1, 1);
  weights_[name] = std::move(stored);
  sources_[name] = std::move(source);
}

absl::StatusOr<std::unique_ptr<GgufModel>> GgufModel::Open(std::shared_ptr<const GgufFile> file) {
  std::unique_ptr<GgufModel> model(new GgufModel(std::move(file)));
  ASSIGN_OR_RETURN(const std::string text, ConfigFromGguf(model->file()));
  ASSIGN_OR_RETURN(model->config_, ParseConfig(text, model->file().path()));
  const ModelConfig& config = model->config_;
  model->Add(EmbeddingName(config), {{"token_embd.weight"}, -1, false, {0}});
  model->Add(FinalNormName(config), {{config.family->gguf.norm + ".weight"}, -1, true, {0}});
  model->Add(HeadName(config), {{"output.weight"}, -1, false, {0}});
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (int place = 0; place < WeightPlaces(config, layer); ++place) {
      const std::string name = WeightName(config, layer, place);
      if (!name.empty()) model->Add(name, model->SourceOf(layer, place));
    }
  }
  std::set<std::string> used;
  for (const auto& [name, source] : model->sources_)
    used.insert(source.tensors.begin(), source.tensors.end());
  for (const auto& [tensor, entry] :
       model->file().tensors()) {  // an unknown tensor shows up as an extra one
    if (!used.contains(tensor) && !IsOfConfig(tensor))
      model->Add(tensor, {{tensor}, -1, false, {0}});
  }
  return model;
}

absl::StatusOr<at::Tensor> GgufModel::ReadTensor(const std::string& name, int64_t heads) const {
  ASSIGN_OR_RETURN(const at::Tensor stored, file_->Read(name));
  if (heads == 0) return stored;
  if (stored.size(0) % (2 * heads) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(file_->path(), ": ", name, ": ", stored.size(0),
                                                   " rows for ", heads, " heads of an even size"));
  }
  // Row (head, pair, half) goes to (head, half, pair).
  return stored.reshape({heads, stored.size(0) / heads / 2, 2, -1})
      .transpose(1, 2)
      .reshape(stored.sizes());
}

absl::StatusOr<at::Tensor> GgufModel::Read(const std::string& name) const {
  const auto found = sources_.find(name);
  if (found == sources_.end())
    return absl::NotFoundError(absl::StrCat(file_->path(), ": no tensor '", name, "'"));
  const Source& source = found->second;
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < source.tensors.size(); ++i) {
    ASSIGN_OR_RETURN(at::Tensor tensor, ReadTensor(source.tensors[i], source.interleaved_heads[i]));
    tensors.push_back(std::move(tensor));
  }
  if (tensors.size() >
      1) {  // [K, g, head_dim, ..], [K, 1, ..], [K, 1, ..]: the rows of a kv head together
    for (at::Tensor& tensor : tensors)
      tensor = tensor.reshape({config_.kv_heads, tensor.size(0) / config_.kv_heads, -1});
    return at::cat(tensors, 1).reshape(weights_.at(name).shape);
  }
  at::Tensor tensor = source.expert < 0 ? tensors[0] : tensors[0].select(0, source.expert);
  if (source.norm && config_.family->gguf.norms_have_one) tensor = tensor - 1;
  return tensor.reshape(weights_.at(name).shape);
}

}  // namespace moonring::model
