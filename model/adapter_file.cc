#include "model/adapter_file.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "model/adapter.h"
#include "model/config/weights.h"

namespace moonring::model {
namespace {

// Name components of an adapter's tensors (lora_A and so on); the adapter's own name may follow in
// a file. `bare`: the tensor's name does not end in ".weight".
struct PartName {
  const char* name;
  bool bare;
};
constexpr PartName kParts[] = {
    {"lora_A", false},          {"lora_B", false},          {"oft_R", false},
    {"lora_embedding_A", true}, {"lora_embedding_B", true}, {"lora_magnitude_vector", true},
    {"token_adapter", true},
};

// Prefixes of the decoder's module names in different versions of Transformers.
constexpr absl::string_view kPlaces[] = {"",
                                         "model.",
                                         "language_model.",
                                         "language_model.model.",
                                         "model.language_model.",
                                         "model.model.",
                                         "text_model.",
                                         "model.text_model."};

std::string WithoutWrappers(absl::string_view stored) {
  std::string name = absl::StrReplaceAll(stored, {{"_orig_mod.", ""},
                                                  {"_fsdp_wrapped_module.", ""},
                                                  {"_checkpoint_wrapped_module.", ""},
                                                  {"modules_to_save.default.", ""},
                                                  {"modules_to_save.", ""},
                                                  {"token_adapter.base_layer.", ""},
                                                  {"base_layer.", ""}});
  absl::string_view rest = name;
  absl::ConsumePrefix(&rest, "module.");
  if (absl::ConsumePrefix(&rest, "base_model.")) absl::ConsumePrefix(&rest, "model.");
  return std::string(rest);
}

// Splits a name into module and tensor: a.q_proj.lora_A.default.weight -> "a.q_proj",
// "lora_A.weight"; a.norm.weight -> "a.norm", "weight".
std::pair<std::string, std::string> Split(const std::string& name) {
  const std::vector<absl::string_view> words = absl::StrSplit(name, '.');
  for (size_t i = 1; i < words.size(); ++i) {
    const auto* found = std::find_if(std::begin(kParts), std::end(kParts),
                                     [&](const PartName& part) { return words[i] == part.name; });
    if (found == std::end(kParts)) continue;
    const std::string module = absl::StrJoin(words.begin(), words.begin() + i, ".");
    if (absl::string_view(found->name) == "token_adapter")
      return {module, "token_adapter.trainable_tokens_delta"};
    const bool bias = words.back() == "bias";
    return {module,
            found->bare ? found->name : absl::StrCat(found->name, bias ? ".bias" : ".weight")};
  }
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::string ModuleOfWeight(const std::string& weight) {
  return weight.substr(0, weight.rfind('.'));
}

absl::string_view LastPart(absl::string_view module) {
  return module.substr(module.rfind('.') + 1);  // without a dot: npos + 1 is 0
}

bool IsPlace(absl::string_view words) {
  return std::find(std::begin(kPlaces), std::end(kPlaces), words) != std::end(kPlaces);
}

}  // namespace

AdapterFile::AdapterFile(const ModelConfig& config, at::TensorOptions placed)
    : tables_{SavedName(EmbeddingName(config)), SavedName(HeadName(config))}, placed_(placed) {
  ModelConfig untied = config;
  untied.tie_word_embeddings = false;
  for (const WeightShape& weight : WantedWeights(untied))
    modules_.insert(ModuleOfWeight(weight.name));
  layers_ = LayerName(config, 0);
  layers_.pop_back();
}

// The name of a module of the file in the base model. Returned unchanged if the base model has no
// such module.
std::string AdapterFile::BaseModule(const std::string& module) const {
  if (modules_.contains(module)) return module;
  const size_t layers = module.find("layers.");
  if (layers != std::string::npos) {
    const std::string here = layers_ + module.substr(layers + absl::string_view("layers.").size());
    return IsPlace(absl::string_view(module).substr(0, layers)) && modules_.contains(here) ? here
                                                                                           : module;
  }
  const absl::string_view last = LastPart(module);
  if (!IsPlace(absl::string_view(module).substr(0, module.size() - last.size()))) return module;
  for (const std::string& here : modules_) {
    if (!absl::StartsWith(here, layers_) && LastPart(here) == last) return here;
  }
  return module;
}

absl::Status AdapterFile::Add(const std::string& stored, std::vector<int64_t> shape) {
  if (absl::StrContains(stored, ".original_module.")) return absl::OkStatus();  // the base's weight
  auto [module, part] = Split(WithoutWrappers(stored));
  module = BaseModule(module);
  const std::string name = AdapterName(module, part);
  if (!stored_.emplace(name, stored).second)
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", stored_.at(name), " and ", stored,
                                                   " are both ", name,
                                                   ": expected one adapter in a file"));
  parts_.emplace(name, Part{module, part, std::move(shape)});
  return absl::OkStatus();
}

absl::Status AdapterFile::Open(const std::string& path) {
  path_ = path;
  if (absl::EndsWith(path, ".bin")) {
    ASSIGN_OR_RETURN(pickled_, PickledFile::Open(path));
    for (const auto& [name, entry] : pickled_->entries()) RETURN_IF_ERROR(Add(name, entry.shape));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(file_, SafetensorsFile::Open(path));
  for (const auto& [name, entry] : file_->entries()) RETURN_IF_ERROR(Add(name, entry.shape));
  return absl::OkStatus();
}

std::vector<std::string> AdapterFile::ModulesWith(absl::string_view part) const {
  std::vector<std::string> modules;
  for (const auto& [name, of] : parts_) {
    if (of.part == part) modules.push_back(of.module);
  }
  return modules;
}

absl::StatusOr<at::Tensor> AdapterFile::Read(const std::string& name) {
  taken_.insert(name);
  const std::string& stored = stored_.at(name);
  ASSIGN_OR_RETURN(at::Tensor tensor,
                   file_ != nullptr ? file_->Read(stored) : pickled_->Read(stored));
  RETURN_IF_ERROR(base::TryTorch([&] { broken_.Look(name, tensor); }), name);
  return tensor;
}

absl::StatusOr<at::Tensor> AdapterFile::Take(const std::string& name,
                                             const std::vector<int64_t>& shape) {
  const auto found = parts_.find(name);
  if (found == parts_.end())
    return absl::NotFoundError(
        absl::StrCat("the tensor ", name, " ", ShapeText(shape), " is missing"));
  if (found->second.shape != shape) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": shape ", ShapeText(found->second.shape), ", this base requires ", ShapeText(shape),
        tables_.contains(name)
            ? "; where tokens were added when it was trained, add them again, with "
              "resize_vocab: true"
            : ""));
  }
  ASSIGN_OR_RETURN(at::Tensor tensor, Read(name));
  RETURN_IF_ERROR(
      base::TryTorch([&] { tensor = tensor.to(placed_, /*non_blocking=*/false, /*copy=*/true); }),
      name);
  return tensor;
}

absl::StatusOr<at::Tensor> AdapterFile::TakeAsItIs(const std::string& name) {
  ASSIGN_OR_RETURN(at::Tensor tensor, Read(name));
  RETURN_IF_ERROR(base::TryTorch([&] { tensor = tensor.clone(); }), name);
  return tensor;
}

absl::Status AdapterFile::Finish(bool all) const {
  for (const auto& [name, part] : parts_) {
    if (all && !taken_.contains(name))
      return absl::InvalidArgumentError(absl::StrCat(path_, ": ", stored_.at(name),
                                                     " is not a weight of this adapter over this "
                                                     "base"));
  }
  return broken_.Refuse(path_);
}

}  // namespace moonring::model
