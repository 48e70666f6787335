#include "model/adapter_folder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <ATen/ops/equal.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"
#include "base/files/input_file.h"
#include "base/status/status_macros.h"
#include "base/text/ordered_json.h"
#include "model/adapter_config.h"
#include "model/adapter_file.h"
#include "model/config/weights.h"
#include "model/files/json_text.h"
#include "model/files/leased_tensors.h"
#include "model/files/mapped_file.h"
#include "model/files/safetensors_writer.h"
#include "model/files/staged_files.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

using Json = base::OrderedJson;

constexpr char kWeightsFile[] = "adapter_model.safetensors", kPickledFile[] = "adapter_model.bin";

// Files with PiSSA's initial A and B: the one that this project writes, and the one of
// LLaMA-Factory.
constexpr char kFirstFile[] = "pissa_init.safetensors",
               kFirstInFolder[] = "pissa_init/adapter_model.safetensors";

constexpr char kTokens[] = "trainable_token_indices";
constexpr char kTokenRows[] = "token_adapter.trainable_tokens_delta";

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

absl::string_view ShortName(absl::string_view module) {
  return module.substr(module.rfind('.') + 1);
}

// Reads those tensors of an adapter's file that belong neither to a linear map nor to a fully
// trained module.
class FixedReader {
 public:
  FixedReader(const ModelConfig& config, const AdapterOptions& options, const Json& json,
              AdapterFile& file)
      : config_(config), options_(options), json_(json), file_(file) {
    ModelConfig untied = config;
    untied.tie_word_embeddings = false;
    for (const WeightShape& weight : WantedWeights(untied)) shapes_[weight.name] = weight.shape;
    for (const std::string& weight : {EmbeddingName(config), HeadName(config)})
      tables_.insert(weight.substr(0, weight.rfind('.')));
  }

  // Reads the tensors; null if the file has none of them.
  absl::StatusOr<std::shared_ptr<const FixedParts>> Read() {
    const std::map<std::string, AdapterFile::Part> parts = file_.parts();
    for (const auto& [name, part] : parts) {
      if (!file_.IsTaken(name)) RETURN_IF_ERROR(ReadPart(name, part));
    }
    if (fixed_->changes.empty()) return nullptr;
    fixed_->config = config_text_.dump();
    return std::shared_ptr<const FixedParts>(std::move(fixed_));
  }

 private:
  absl::Status ReadPart(const std::string& name, const AdapterFile::Part& part) {
    const bool table = tables_.contains(part.module);
    if (table && part.part == "lora_embedding_A") return ReadEmbedding(name, part);
    if (table && part.part == "lora_A.weight") return ReadHead(name, part);
    if (table && part.part == kTokenRows) return ReadTokens(name, part);
    if (part.part == "lora_B.bias" && !options_.dora) return ReadBias(name, part);
    if (part.part == "weight" || part.part == "bias") return ReadWhole(name, part);
    return absl::OkStatus();  // AdapterFile::Finish reports this tensor
  }

  absl::StatusOr<at::Tensor> Take(const std::string& name, const std::vector<int64_t>& shape) {
    const auto found = file_.parts().find(name);
    if (found == file_.parts().end())
      return absl::NotFoundError(
          absl::StrCat("the tensor ", name, " ", ShapeText(shape), " is missing"));
    if (found->second.shape != shape)
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": shape ", ShapeText(found->second.shape), ", this base requires ",
                       ShapeText(shape),
                       "; where tokens were added when it was trained, add them "
                       "again, with resize_vocab: true"));
    ASSIGN_OR_RETURN(at::Tensor tensor, file_.TakeAsItIs(name));
    fixed_->tensors[name] = tensor;
    return tensor;
  }

  // The shape [V, D] of the embedding or the head.
  const std::vector<int64_t>& TableShape(const std::string& module) const {
    return shapes_.at(module + ".weight");
  }

  absl::Status ReadEmbedding(const std::string& name, const AdapterFile::Part& part) {
    const auto& shape = TableShape(part.module);
    const int64_t rank = options_.rank_of(part.module);
    ASSIGN_OR_RETURN(const at::Tensor a, Take(name, {rank, shape[0]}));
    ASSIGN_OR_RETURN(const at::Tensor b,
                     Take(AdapterName(part.module, "lora_embedding_B"), {shape[1], rank}));
    FixedChange& change = fixed_->changes[part.module + ".weight"];
    change.b_OR = a.t();
    change.a_RI = b.t();
    return AddLowRank(part.module, change);
  }

  absl::Status ReadHead(const std::string& name, const AdapterFile::Part& part) {
    const auto& shape = TableShape(part.module);
    const int64_t rank = options_.rank_of(part.module);
    FixedChange& change = fixed_->changes[part.module + ".weight"];
    ASSIGN_OR_RETURN(change.a_RI, Take(name, {rank, shape[1]}));
    ASSIGN_OR_RETURN(change.b_OR,
                     Take(AdapterName(part.module, "lora_B.weight"), {shape[0], rank}));
    if (options_.dora) {
      ASSIGN_OR_RETURN(change.magnitude_O,
                       Take(AdapterName(part.module, "lora_magnitude_vector"), {shape[0]}));
    }
    return AddLowRank(part.module, change);
  }

  absl::Status AddLowRank(const std::string& module, FixedChange& change) {
    change.scale = options_.scale_of(module);
    fixed_->targets.push_back(module);
    fixed_->words.push_back(absl::StrCat("low-rank weights of ", ShortName(module)));
    return absl::OkStatus();
  }

  absl::Status ReadTokens(const std::string& name, const AdapterFile::Part& part) {
    const Json* list = nullptr;
    const auto given = json_.find(kTokens);
    if (given != json_.end() && given->is_array()) list = &*given;
    if (given != json_.end() && given->is_object()) {
      for (const auto& [key, value] : given->items()) {
        if (part.module == key || absl::EndsWith(part.module, "." + key)) list = &value;
      }
    }
    const auto& shape = TableShape(part.module);
    std::vector<int64_t> tokens;
    for (const Json& token : list == nullptr ? Json::array() : *list) {
      const bool fits =
          token.is_number_integer() && token.get<int64_t>() >= 0 && token.get<int64_t>() < shape[0];
      if (!fits)
        return absl::InvalidArgumentError(
            absl::StrCat(kTokens, ": ", token.dump(), ": expected ids from 0 to ", shape[0] - 1));
      tokens.push_back(token);
    }
    ASSIGN_OR_RETURN(const at::Tensor rows,
                     Take(name, {static_cast<int64_t>(tokens.size()), shape[1]}));
    std::vector<std::string> weights = {part.module + ".weight"};
    if (config_.tie_word_embeddings && weights[0] == EmbeddingName(config_))
      weights.push_back(HeadName(config_));
    for (const std::string& weight : weights) {
      fixed_->changes[weight].tokens = tokens;
      fixed_->changes[weight].rows_ND = rows;
    }
    config_text_[kTokens] = *given;
    fixed_->words.push_back(
        absl::StrCat(tokens.size(), " tokens' rows of ", ShortName(part.module)));
    return absl::OkStatus();
  }

  absl::Status ReadBias(const std::string& name, const AdapterFile::Part& part) {
    const auto weight = shapes_.find(part.module + ".weight");
    if (weight == shapes_.end()) return absl::OkStatus();
    FixedChange& change = fixed_->changes[part.module + ".bias"];
    ASSIGN_OR_RETURN(change.plus_O, Take(name, {weight->second[0]}));
    change.scale = options_.scale_of(part.module);
    config_text_["lora_bias"] = true;
    return Once("biases (lora_bias)");
  }

  absl::Status ReadWhole(const std::string& name, const AdapterFile::Part& part) {
    const std::string weight = absl::StrCat(part.module, ".", part.part);
    const auto shape = shapes_.find(weight);
    if (shape == shapes_.end()) return absl::OkStatus();
    ASSIGN_OR_RETURN(at::Tensor whole, Take(name, shape->second));
    const auto embedding = fixed_->changes.find(EmbeddingName(config_));
    if (weight == HeadName(config_) && embedding != fixed_->changes.end() &&
        embedding->second.whole.defined() && at::equal(embedding->second.whole, whole))
      whole = embedding->second.whole;
    fixed_->changes[weight].whole = whole;
    if (part.part == "weight")
      return Once(absl::StrCat(ShortName(part.module), " in the base's place"));
    config_text_["bias"] = json_.value("bias", "all");
    return Once("biases in the base's place");
  }

  absl::Status Once(std::string words) {
    auto& all = fixed_->words;
    if (std::find(all.begin(), all.end(), words) == all.end()) all.push_back(std::move(words));
    return absl::OkStatus();
  }

  const ModelConfig& config_;
  const AdapterOptions& options_;
  const Json& json_;
  AdapterFile& file_;
  std::map<std::string, std::vector<int64_t>> shapes_;
  std::set<std::string> tables_;
  std::shared_ptr<FixedParts> fixed_ = std::make_shared<FixedParts>();
  Json config_text_ = Json::object();
};

absl::StatusOr<std::string> WeightsPath(const std::string& dir) {
  for (const char* file : {kWeightsFile, kPickledFile}) {
    if (Exists(absl::StrCat(dir, "/", file))) return absl::StrCat(dir, "/", file);
  }
  return absl::NotFoundError(absl::StrCat("adapter_name_or_path: ", dir, " has no ", kWeightsFile,
                                          " and no ", kPickledFile));
}

absl::StatusOr<std::string> FirstPath(const std::string& dir, const AdapterOptions& options) {
  for (const char* file : {kFirstFile, kFirstInFolder}) {
    if (Exists(absl::StrCat(dir, "/", file))) return absl::StrCat(dir, "/", file);
  }
  return absl::NotFoundError(absl::StrCat(
      dir, "/", kAdapterConfigFile, ": init_lora_weights: ", InitText(options),
      ": the initial values are subtracted from the base, and neither ", kFirstFile, " nor ",
      kFirstInFolder, " is there; expected one of them, or the converted adapter"));
}

// Modules with LoRA or OFT weights in the file, including embedding and head.
std::vector<std::string> ModulesIn(const AdapterFile& file) {
  std::vector<std::string> modules;
  for (const char* part : {"lora_A.weight", "oft_R.weight", "lora_embedding_A"}) {
    for (std::string& module : file.ModulesWith(part)) modules.push_back(std::move(module));
  }
  return modules;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Adapter>> ReadAdapter(const std::string& dir,
                                                     const ModelConfig& config,
                                                     at::ScalarType dtype, at::Device device) {
  RETURN_IF_ERROR(base::CheckReading(
      dir));  // first, so that nothing about the folder is revealed if reading it is not allowed
  const std::string config_path = absl::StrCat(dir, "/", kAdapterConfigFile);
  if (dir.empty() || !Exists(dir))
    return absl::NotFoundError(absl::StrCat("adapter_name_or_path: no folder '", dir, "'"));
  if (!Exists(config_path))
    return absl::NotFoundError(
        absl::StrCat("adapter_name_or_path: ", dir, " has no ", kAdapterConfigFile));
  ASSIGN_OR_RETURN(const std::string weights_path, WeightsPath(dir));
  RETURN_IF_ERROR(base::CheckWholeFile(config_path, base::kMostWrittenFile));
  ASSIGN_OR_RETURN(const auto config_file, MappedFile::Open(config_path));
  RETURN_IF_ERROR(ParseJsonObject(config_file->bytes(), config_path).status());
  AdapterFile file(config, at::TensorOptions(device).dtype(dtype)), first = file;
  RETURN_IF_ERROR(file.Open(weights_path));
  ASSIGN_OR_RETURN(AdapterOptions options,
                   ReadAdapterConfig(config_file->bytes(), config_path, config, ModulesIn(file)));
  const auto take_from = [](AdapterFile& from) -> Adapter::Take {
    return [&from](const std::string& name, const std::vector<int64_t>& shape) {
      return from.Take(name, shape);
    };
  };
  const bool has_first = options.principal.has_value();
  if (has_first) {
    ASSIGN_OR_RETURN(const std::string first_path, FirstPath(dir, options));
    RETURN_IF_ERROR(first.Open(first_path));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Adapter> adapter,
                   Adapter::Assemble(config, std::move(options), take_from(file),
                                     has_first ? take_from(first) : nullptr),
                   dir);
  const Json json = Json::parse(config_file->bytes());
  ASSIGN_OR_RETURN(adapter->fixed, FixedReader(config, adapter->options, json, file).Read(), dir);
  if (adapter->fixed != nullptr) {
    RETURN_IF_ERROR(adapter->fixed->ConfigOver(config).status(), dir);
  }
  RETURN_IF_ERROR(file.Finish(/*all=*/true));
  if (has_first) RETURN_IF_ERROR(first.Finish(/*all=*/false));
  return adapter;
}

absl::Status SaveAdapter(const std::string& dir, const Adapter& adapter,
                         const std::string& base_path,
                         const std::map<std::string, std::string>& companions, Flush flush) {
  LeasedTensors leased, first;
  for (const auto& parameter : adapter.parameters) leased.Add(parameter, parameter->dtype());
  for (const auto& parameter : adapter.first) first.Add(parameter, parameter->dtype());
  std::vector<TensorToWrite> tensors = leased.tensors();
  if (adapter.fixed != nullptr) {
    for (const auto& [name, tensor] : adapter.fixed->tensors)
      tensors.push_back(
          {name, tensor.sizes().vec(), tensor.scalar_type(), [of = tensor] { return of; }});
  }
  ASSIGN_OR_RETURN(StagedFiles files, StagedFiles::Create(dir, flush));
  RETURN_IF_ERROR(StageSafetensors(files, kWeightsFile, tensors));
  if (!adapter.first.empty()) RETURN_IF_ERROR(StageSafetensors(files, kFirstFile, first.tensors()));
  for (const auto& [name, contents] : companions) RETURN_IF_ERROR(files.Write(name, contents));
  RETURN_IF_ERROR(files.Write(kAdapterConfigFile, AdapterConfigText(adapter, base_path)));
  return files.Commit();
}

}  // namespace moonring::model
