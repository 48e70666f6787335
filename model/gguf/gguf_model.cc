#include "model/gguf/gguf_model.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ATen/TensorOperators.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/stack.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "comm/status/status_macros.h"
#include "model/config/family.h"
#include "model/config/weights.h"
#include "model/families/parse_config.h"
#include "model/files/weight_shape.h"
#include "model/gguf/gguf_code.h"
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
    case kQueryDown:
      return "attn_q_a";
    case kQueryDownNorm:
      return "attn_q_a_norm";
    case kQueryUp:
      return "attn_q_b";
    case kKeyValueDown:
      return "attn_kv_a_mqa";
    case kKeyValueDownNorm:
      return "attn_kv_a_norm";
    case kKeyValueUp:
      return "attn_kv_b";
    case kSinks:
      return "attn_sinks";
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
    case kRouterCorrection:
      return "exp_probs_b";
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
    case kDeltaQueryKeyValue:
      return "attn_qkv";
    case kDeltaGate:
      return "attn_gate";
    case kDeltaBetaDecay:
      return "ssm_ba";
    case kDeltaBeta:
      return "ssm_beta";
    case kDeltaDecay:
      return "ssm_alpha";
    case kDeltaFilter:
      return "ssm_conv1d";
    case kDeltaDecayLog:
      return "ssm_a";
    case kDeltaDecayShift:
      return "ssm_dt";
    case kDeltaNorm:
      return "ssm_norm";
    case kDeltaOutput:
      return "ssm_out";
    default:
      return "";
  }
}

constexpr const char* kExperts[kExpertWeights] = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};

// What follows the name of a place's tensor.
const char* Suffix(int place) {
  if (place == kDeltaDecayLog) return "";
  const bool bias = IsBias(place) || place == kRouterCorrection || place == kDeltaDecayShift;
  return bias ? ".bias" : ".weight";
}

// Tensors that the config was made of.
bool IsOfConfig(const std::string& tensor) {
  return tensor == "rope_freqs.weight" || tensor == "rope_factors_long.weight" ||
         tensor == "rope_factors_short.weight";
}

// The number N of a tensor "blk.N.name"; -1 where it is none.
int64_t BlockOf(absl::string_view tensor) {
  int64_t block = -1;
  if (!absl::ConsumePrefix(&tensor, "blk.") ||
      !absl::SimpleAtoi(tensor.substr(0, tensor.find('.')), &block))
    return -1;
  return std::max<int64_t>(block, -1);
}

}  // namespace

GgufModel::Source GgufModel::SourceOf(int64_t layer, int place) const {
  const std::string block = absl::StrCat("blk.", layer, ".");
  const auto experts = [&](ExpertWeight weight, const char* kind) {
    return absl::StrCat(block, kExperts[weight], kind);
  };
  if (place >= kBlockWeights) {
    const int number = place - kBlockWeights;
    return {.tensors = {experts(static_cast<ExpertWeight>(number % kExpertWeights), ".weight")},
            .parts = Parts::kExpert,
            .expert = number / kExpertWeights};
  }
  const int named = IsBias(place) ? MapOfBias(place) : place;
  const char* const kind = Suffix(place);
  const bool interleaved = config_.family->gguf.interleaved_heads;
  const auto heads = [&](int map) {
    return !interleaved ? 0 : map == kQuery ? config_.heads : map == kKey ? config_.kv_heads : 0;
  };
  Source source{.tensors = {absl::StrCat(block, GgufName(named), kind)},
                .norm = IsNorm(place) && place != kDeltaNorm,
                .interleaved_heads = {heads(named)},
                .tiled = TiledIn(place),
                .negated_exponential = place == kDeltaDecayLog};
  switch (place) {
    case kExpertsGateUp:
      return {.tensors = {experts(kExpertGate, ".weight"), experts(kExpertUp, ".weight")},
              .parts = Parts::kTurns};
    case kExpertsGateUpBias:
      return {.tensors = {experts(kExpertGate, ".bias"), experts(kExpertUp, ".bias")},
              .parts = Parts::kTurns};
    case kExpertsDown:
      return {.tensors = {experts(kExpertDown, ".weight")}, .parts = Parts::kTransposed};
    case kExpertsDownBias:
      return {.tensors = {experts(kExpertDown, ".bias")}};
    case kMlpInputNorm:
      if (config_.family->gguf.norm_follows_attention)
        source.tensors = {absl::StrCat(block, GgufName(kAttentionNorm), kind)};
      break;
    case kKeyValueUp:
      if (file_->tensors().contains(source.tensors[0])) break;
      return {.tensors = {absl::StrCat(block, "attn_k_b.weight"),
                          absl::StrCat(block, "attn_v_b.weight")},
              .parts = Parts::kKeyValueUp};
    case kSharedSwitch:
      source.parts = Parts::kRow;
      break;
    case kConvolutionFilter:
    case kDeltaFilter:
      source.parts = Parts::kTaps;
      break;
    case kDeltaQueryKeyValueGate:
      // Older files have it whole.
      if (const std::string whole = absl::StrCat(block, "ssm_in.weight");
          file_->tensors().contains(whole))
        return {.tensors = {whole}};
      return {.tensors = {absl::StrCat(block, "attn_qkv.weight"),
                          absl::StrCat(block, "attn_gate.weight")},
              .parts = Parts::kKeyHeads};
    default:
      break;
  }
  if (named == kQueryKeyValue && config_.family->qkv_rows == QkvRows::kGrouped) {
    source = {.parts = Parts::kKvHeads};
    for (const int map : {kQuery, kKey, kValue}) {
      source.tensors.push_back(absl::StrCat(block, GgufName(map), kind));
      source.interleaved_heads.push_back(heads(map));
    }
  }
  return source;
}

std::optional<GgufModel::ValueHeads> GgufModel::TiledIn(int place) const {
  if (!config_.family->gguf.tiled_values) return std::nullopt;
  const DeltaRule& rule = config_.delta;
  switch (place) {
    case kDeltaQueryKeyValue:
    case kDeltaFilter:
      return ValueHeads{0, 2 * rule.keys(), rule.value_dim};
    case kDeltaGate:
      return ValueHeads{0, 0, rule.value_dim};
    case kDeltaBeta:
    case kDeltaDecay:
    case kDeltaDecayLog:
    case kDeltaDecayShift:
      return ValueHeads{0, 0, 1};
    case kDeltaOutput:
      return ValueHeads{1, 0, rule.value_dim};
    default:
      return std::nullopt;
  }
}

at::Tensor GgufModel::InOrder(const at::Tensor& tensor, const ValueHeads& heads) const {
  const int64_t groups = config_.delta.key_heads, each = config_.delta.value_heads / groups;
  const at::Tensor values =
      tensor.narrow(heads.dim, heads.first, tensor.size(heads.dim) - heads.first);
  const at::Tensor ordered = values.unflatten(heads.dim, {each, groups, heads.width})
                                 .transpose(heads.dim, heads.dim + 1)
                                 .flatten(heads.dim, heads.dim + 2);
  return heads.first == 0 ? ordered.contiguous()
                          : at::cat({tensor.narrow(heads.dim, 0, heads.first), ordered}, heads.dim);
}

std::vector<int64_t> GgufModel::ShapeOf(const Source& source) const {
  const std::vector<int64_t>& first = file_->tensors().at(source.tensors[0]).shape;
  const std::vector<int64_t>& last = file_->tensors().at(source.tensors.back()).shape;
  const bool three = first.size() == 3;
  switch (source.parts) {
    case Parts::kOne:
      return first;
    case Parts::kExpert:
      if (!three || source.expert >= first[0]) return {};
      return {first[1], first[2]};
    case Parts::kKvHeads: {
      std::vector<int64_t> shape = first;
      for (size_t i = 1; i < source.tensors.size(); ++i) {
        const std::vector<int64_t>& more = file_->tensors().at(source.tensors[i]).shape;
        if (more.empty() || shape.empty()) return {};
        shape[0] += more[0];
      }
      return shape;
    }
    case Parts::kTransposed:
      if (!three) return {};
      return {first[0], first[2], first[1]};
    case Parts::kTurns:
      if (first != last || (!three && first.size() != 2)) return {};
      if (three) return {first[0], first[2], 2 * first[1]};
      return {first[0], 2 * first[1]};
    case Parts::kKeyValueUp:
      if (!three || last.size() != 3 || first[0] != last[0] || first[1] != last[2]) return {};
      return {first[0] * (first[2] + last[1]), first[1]};
    case Parts::kRow:
      if (first.size() != 1) return first;
      return {1, first[0]};
    case Parts::kTaps:
      if (first.size() != 2) return first;
      return {first[0], 1, first[1]};
    case Parts::kKeyHeads: {
      const DeltaRule& rule = config_.delta;
      const bool fit = first.size() == 2 && last.size() == 2 && first[1] == last[1] &&
                       first[0] == 2 * rule.keys() + rule.values() && last[0] == rule.values();
      if (!fit) return {};
      return {first[0] + last[0], first[1]};
    }
  }
  return {};
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
  model->Add(EmbeddingName(config), {.tensors = {"token_embd.weight"}});
  model->Add(FinalNormName(config),
             {.tensors = {config.family->gguf.norm + ".weight"}, .norm = true});
  model->Add(HeadName(config), {.tensors = {"output.weight"}});
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (int place = 0; place < WeightPlaces(config, layer); ++place) {
      const std::string name = WeightName(config, layer, place);
      if (!name.empty()) model->Add(name, model->SourceOf(layer, place));
    }
  }
  std::set<std::string> used;
  for (const auto& [name, source] : model->sources_)
    used.insert(source.tensors.begin(), source.tensors.end());
  ASSIGN_OR_RETURN(const int64_t predicting, PredictingLayers(model->file()));
  for (const auto& [tensor, entry] :
       model->file().tensors()) {  // an unknown tensor shows up as an extra one
    const int64_t beyond = BlockOf(tensor) - config.layers;
    if (used.contains(tensor) || IsOfConfig(tensor) || (beyond >= 0 && beyond < predicting))
      continue;
    model->Add(tensor, {.tensors = {tensor}});
  }
  return model;
}

absl::StatusOr<const GgufModel::Source*> GgufModel::FindSource(const std::string& name) const {
  const auto found = sources_.find(name);
  if (found == sources_.end())
    return absl::NotFoundError(absl::StrCat(file_->path(), ": no tensor '", name, "'"));
  const Source& source = found->second;
  if (weights_.at(name).shape.empty() && source.parts != Parts::kOne) {
    return absl::InvalidArgumentError(absl::StrCat(file_->path(), ": ",
                                                   absl::StrJoin(source.tensors, " and "),
                                                   " do not have the shapes of ", name));
  }
  return &source;
}

absl::StatusOr<std::vector<at::Tensor>> GgufModel::ReadTensors(const Source& source,
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
    // Row (head, pair, half) goes to (head, half, pair).
    tensors.back() = stored.reshape({heads, stored.size(0) / heads / 2, 2, -1})
                         .transpose(1, 2)
                         .reshape(stored.sizes());
  }
  return tensors;
}

at::Tensor GgufModel::ByKvHeads(std::vector<at::Tensor> tensors) const {
  // [K, g head_dim ..], [K, head_dim ..], [K, head_dim ..]
  for (at::Tensor& tensor : tensors)
    tensor = tensor.reshape({config_.kv_heads, tensor.size(0) / config_.kv_heads, -1});
  return at::cat(tensors, 1);
}

absl::StatusOr<at::Tensor> GgufModel::Read(const std::string& name) const {
  ASSIGN_OR_RETURN(const Source* found, FindSource(name));
  const Source& source = *found;
  const std::vector<int64_t>& shape = weights_.at(name).shape;
  if (source.parts == Parts::kExpert) return file_->ReadSlice(source.tensors[0], source.expert);
  ASSIGN_OR_RETURN(const std::vector<at::Tensor> tensors, ReadTensors(source, /*blocks=*/false));
  switch (source.parts) {
    case Parts::kKeyHeads: {
      const DeltaRule& rule = config_.delta;
      std::vector<at::Tensor> parts =
          tensors[0].split_with_sizes({rule.keys(), rule.keys(), rule.values()});
      parts.push_back(tensors[1]);
      for (at::Tensor& part : parts)
        part = part.reshape({rule.key_heads, part.size(0) / rule.key_heads, -1});
      return at::cat(parts, 1).reshape(shape);
    }
    case Parts::kKvHeads:
      return ByKvHeads(tensors).reshape(shape);
    case Parts::kTransposed:
      return tensors[0].transpose(1, 2).contiguous();
    case Parts::kTurns: {
      const at::Tensor turns = at::stack(tensors, 2).flatten(1, 2);
      return turns.dim() == 2 ? turns : turns.transpose(1, 2).contiguous();
    }
    case Parts::kKeyValueUp:
      return at::cat({tensors[0].transpose(1, 2), tensors[1]}, 1).reshape(shape);
    default:
      break;
  }
  at::Tensor tensor = tensors[0];
  if (source.norm && config_.family->gguf.norms_have_one) tensor = tensor - 1;
  if (source.negated_exponential) tensor = (-tensor).log();
  if (source.tiled.has_value()) {
    const ValueHeads& heads = *source.tiled;
    if (tensor.dim() <= heads.dim ||
        tensor.size(heads.dim) != heads.first + config_.delta.value_heads * heads.width) {
      return absl::InvalidArgumentError(absl::StrCat(file_->path(), ": ", source.tensors[0],
                                                     " does not have the shape of ", name));
    }
    tensor = InOrder(tensor, heads);
  }
  return tensor.reshape(shape);
}

const GgufType* GgufModel::BlocksOf(const std::string& name) const {
  const absl::StatusOr<const Source*> found = FindSource(name);
  if (!found.ok()) return nullptr;
  const Source& source = **found;
  const bool whole_rows = source.parts == Parts::kOne || source.parts == Parts::kExpert ||
                          source.parts == Parts::kKvHeads;
  if (!whole_rows || source.norm) return nullptr;
  const uint32_t id = file_->tensors().at(source.tensors[0]).type;
  for (const std::string& tensor : source.tensors) {
    if (file_->tensors().at(tensor).type != id) return nullptr;
  }
  const GgufType& type = *FindGgufType(id);
  return type.readable() && type.elements > 1 ? &type : nullptr;
}

std::shared_ptr<const comm::WeightCode> GgufModel::CodeOf(const std::string& name) const {
  const GgufType* type = BlocksOf(name);
  return type == nullptr ? nullptr : std::make_shared<GgufCode>(*type);
}

absl::StatusOr<comm::PackedWeight> GgufModel::ReadPacked(const std::string& name) const {
  ASSIGN_OR_RETURN(const Source* source, FindSource(name));
  const StoredWeight& stored = weights_.at(name);
  if (BlocksOf(name) == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat(file_->path(), ": ", name, " in ", stored.dtype, " cannot stay packed"));
  }
  at::Tensor blocks;
  if (source->parts == Parts::kExpert) {
    ASSIGN_OR_RETURN(blocks, file_->ReadBlocksOfSlice(source->tensors[0], source->expert));
  } else {
    ASSIGN_OR_RETURN(const std::vector<at::Tensor> tensors, ReadTensors(*source, /*blocks=*/true));
    blocks = source->parts == Parts::kKvHeads ? ByKvHeads(tensors) : tensors[0];
  }
  return comm::PackedWeight{{blocks.reshape({-1})}, stored.shape};
}

}  // namespace moonring::model
