#include "model/adapter_folder.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "comm/files/confinement.h"
#include "comm/status/status_macros.h"
#include "comm/status/torch_status.h"
#include "model/broken_weights.h"
#include "model/config/weights.h"
#include "model/files/json_text.h"
#include "model/files/leased_tensors.h"
#include "model/files/mapped_file.h"
#include "model/files/safetensors.h"
#include "model/files/safetensors_writer.h"
#include "model/files/staged_files.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

constexpr char kConfigFile[] = "adapter_config.json", kWeightsFile[] = "adapter_model.safetensors";
constexpr char kPeftVersion[] = "0.18.1";  // whose format this is

// PiSSA's first values: a file of ours, or LLaMA-Factory's folder.
constexpr char kPrincipal[] = "pissa", kFirstFile[] = "pissa_init.safetensors",
               kFirstInFolder[] = "pissa_init/adapter_model.safetensors";

// Options that change what an adapter computes and that are not supported.
constexpr const char* kUnsupported[] = {"coft",
                                        "block_share",
                                        "rank_pattern",
                                        "alpha_pattern",
                                        "layers_to_transform",
                                        "layers_pattern",
                                        "exclude_modules",
                                        "layer_replication",
                                        "fan_in_fan_out",
                                        "lora_bias",
                                        "megatron_config",
                                        "trainable_token_indices",
                                        "loftq_config",
                                        "eva_config",
                                        "corda_config",
                                        "target_parameters",
                                        "alora_invocation_tokens",
                                        "use_qalora",
                                        "arrow_config"};

bool AsksForNothing(const nlohmann::json& value) {
  return value.is_null() || value == false ||
         ((value.is_object() || value.is_array() || value.is_string()) && value.empty());
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

absl::StatusOr<std::vector<std::string>> Names(const JsonFields& fields, absl::string_view key) {
  std::vector<std::string> names;
  const nlohmann::json* value = fields.Find(key);
  if (value == nullptr) return names;
  if (!value->is_array()) return fields.Wrong(key, "a list of names");
  for (const nlohmann::json& name : *value) {
    if (!name.is_string() || name.get_ref<const std::string&>().empty())
      return fields.Wrong(key, "a list of names");
    names.push_back(name);
  }
  return names;
}

// "pissa", or "pissa_niter_N" with as many iterations.
bool IsPrincipal(const nlohmann::json& init) {
  return init.is_string() && absl::StartsWith(init.get_ref<const std::string&>(), kPrincipal);
}

absl::Status CheckSupported(const JsonFields& fields, const ModelConfig& config) {
  const auto refuse = [&](absl::string_view key, const nlohmann::json& value,
                          absl::string_view why) {
    return absl::UnimplementedError(
        absl::StrCat(fields.where(), ": ", key, ": ", ShownJson(value), why));
  };
  ASSIGN_OR_RETURN(const std::string type, fields.String("peft_type", ""));
  if (type != "LORA" && type != "OFT") return refuse("peft_type", type, ": wanted LORA or OFT");
  for (const char* key : kUnsupported) {
    const nlohmann::json* value = fields.Find(key);
    if (value != nullptr && !AsksForNothing(*value))
      return refuse(key, *value, " is not supported");
  }
  ASSIGN_OR_RETURN(const std::string bias, fields.String("bias", "none"));
  if (bias != "none") return refuse("bias", bias, " is not supported, biases stay the base's");
  const nlohmann::json* init = fields.Find("init_lora_weights");
  if (init != nullptr && init->is_string() && *init != "gaussian" && *init != "orthogonal" &&
      *init != "eva" && !IsPrincipal(*init)) {
    return refuse("init_lora_weights", *init,
                  " is not supported: it changes the base's weights too");
  }
  ASSIGN_OR_RETURN(const bool tying, fields.Bool("ensure_weight_tying", false));
  if (tying && config.tie_word_embeddings)
    return refuse("ensure_weight_tying", true, " is not supported");
  return absl::OkStatus();
}

// The modules that have an adapter's weights in the file.
std::vector<std::string> ModulesIn(const SafetensorsFile& file) {
  std::vector<std::string> modules;
  for (const auto& [name, entry] : file.entries()) {
    for (const absl::string_view part : {".lora_A.weight", ".oft_R.weight"}) {
      if (absl::EndsWith(name, part))
        modules.emplace_back(absl::StripPrefix(absl::StripSuffix(name, part), "base_model.model."));
    }
  }
  return modules;
}

absl::StatusOr<RotationOptions> ReadRotation(const JsonFields& fields) {
  RotationOptions rotation;
  ASSIGN_OR_RETURN(rotation.blocks, fields.Int("r"));
  ASSIGN_OR_RETURN(rotation.block_size, fields.Int("oft_block_size"));
  ASSIGN_OR_RETURN(const bool series, fields.Bool("use_cayley_neumann", true));
  ASSIGN_OR_RETURN(const auto terms, fields.OptionalInt("num_cayley_neumann_terms"));
  rotation.terms = series ? std::max<int64_t>(1, terms.value_or(5)) : 0;
  return rotation;
}

absl::Status ReadLowRank(const JsonFields& fields, AdapterOptions& options) {
  ASSIGN_OR_RETURN(options.rank, fields.Int("r"));
  if (options.rank < 1)
    return absl::InvalidArgumentError(
        absl::StrCat(fields.where(), ": r: ", options.rank, ", wanted 1 or more"));
  ASSIGN_OR_RETURN(options.alpha, fields.Number("lora_alpha", 8.0));
  ASSIGN_OR_RETURN(options.dropout, fields.Number("lora_dropout", 0.0));
  ASSIGN_OR_RETURN(options.rslora, fields.Bool("use_rslora", false));
  ASSIGN_OR_RETURN(options.dora, fields.Bool("use_dora", false));
  const nlohmann::json* init = fields.Find("init_lora_weights");
  if (init == nullptr || !IsPrincipal(*init)) return absl::OkStatus();
  absl::string_view text = init->get_ref<const std::string&>();
  options.principal.emplace(PrincipalOptions{-1});
  options.dropout = 0.0;  // acts in training alone, which goes on without it
  if (text != kPrincipal && !(absl::ConsumePrefix(&text, "pissa_niter_") &&
                              absl::SimpleAtoi(text, &options.principal->iterations)))
    return fields.Wrong("init_lora_weights", "pissa or pissa_niter_N");
  return absl::OkStatus();
}

absl::StatusOr<AdapterOptions> ReadOptions(const JsonFields& fields, const SafetensorsFile& file) {
  AdapterOptions options;
  ASSIGN_OR_RETURN(const std::string type, fields.String("peft_type", ""));
  if (type == "OFT") {
    ASSIGN_OR_RETURN(options.rotation, ReadRotation(fields));
  } else {
    RETURN_IF_ERROR(ReadLowRank(fields, options));
  }
  const nlohmann::json* targets = fields.Find("target_modules");
  if (targets == nullptr) return fields.Missing("target_modules");
  if (*targets == "all-linear") {
    options.targets = {"all"};
  } else if (targets->is_string()) {
    options.targets = ModulesIn(file);
  } else {
    ASSIGN_OR_RETURN(options.targets, Names(fields, "target_modules"));
  }
  ASSIGN_OR_RETURN(options.saved, Names(fields, "modules_to_save"));
  return options;
}

// `target_modules`: names of modules; of a composite model's text half a pattern, since PEFT would
// take modules of the same names in the vision tower too.
nlohmann::ordered_json TargetsOf(const Adapter& adapter) {
  constexpr absl::string_view kText = "model.language_model.";
  if (!absl::StartsWith(adapter.maps.begin()->first, kText)) return adapter.options.targets;
  std::vector<std::string> names;
  for (const std::string& target : adapter.options.targets)
    names.push_back(absl::StrReplaceAll(absl::StripPrefix(target, kText), {{".", "\\."}}));
  return absl::StrCat("model\\.language_model\\.(?:.*\\.)?(?:", absl::StrJoin(names, "|"), ")");
}

using Json = nlohmann::ordered_json;

// `init_lora_weights` of what is saved.
Json InitOf(const AdapterOptions& options) {
  if (!options.principal.has_value()) return true;
  const int64_t iterations = options.principal->iterations;
  return iterations < 0 ? std::string(kPrincipal) : absl::StrCat("pissa_niter_", iterations);
}

Json RotationJson(const Adapter& adapter, const std::string& base_path) {
  const RotationOptions& rotation = *adapter.options.rotation;
  const Json null = nullptr;
  return {
      {"auto_mapping", null},
      {"base_model_name_or_path", base_path},
      {"bias", "none"},
      {"block_share", false},
      {"coft", false},
      {"eps", 6e-05},
      {"exclude_modules", null},
      {"fan_in_fan_out", false},
      {"inference_mode", true},
      {"init_weights", true},
      {"layers_pattern", null},
      {"layers_to_transform", null},
      {"module_dropout", 0.0},
      {"modules_to_save", null},
      {"num_cayley_neumann_terms", rotation.terms > 0 ? rotation.terms : 5},
      {"oft_block_size", rotation.block_size},
      {"peft_type", "OFT"},
      {"peft_version", kPeftVersion},
      {"r", rotation.blocks},
      {"revision", null},
      {"target_modules", TargetsOf(adapter)},
      {"task_type", "CAUSAL_LM"},
      {"use_cayley_neumann", rotation.terms > 0},
  };
}

Json LowRankJson(const Adapter& adapter, const std::string& base_path) {
  const AdapterOptions& options = adapter.options;
  const Json null = nullptr, none = Json::object();
  const bool whole = options.alpha == static_cast<double>(static_cast<int64_t>(options.alpha));
  Json json = {
      {"alora_invocation_tokens", null},
      {"alpha_pattern", none},
      {"arrow_config", null},
      {"auto_mapping", null},
      {"base_model_name_or_path", base_path},
      {"bias", "none"},
      {"corda_config", null},
      {"ensure_weight_tying", false},
      {"eva_config", null},
      {"exclude_modules", null},
      {"fan_in_fan_out", false},
      {"inference_mode", true},
      {"init_lora_weights", InitOf(options)},
      {"layer_replication", null},
      {"layers_pattern", null},
      {"layers_to_transform", null},
      {"loftq_config", none},
      {"lora_alpha", options.alpha},
      {"lora_bias", false},
      {"lora_dropout", options.dropout},
      {"megatron_config", null},
      {"megatron_core", "megatron.core"},
      {"modules_to_save", null},
      {"peft_type", "LORA"},
      {"peft_version", kPeftVersion},
      {"qalora_group_size", 16},
      {"r", options.rank},
      {"rank_pattern", none},
      {"revision", null},
      {"target_modules", TargetsOf(adapter)},
      {"target_parameters", null},
      {"task_type", "CAUSAL_LM"},
      {"trainable_token_indices", null},
      {"use_dora", options.dora},
      {"use_qalora", false},
      {"use_rslora", options.rslora},
  };
  if (whole) json["lora_alpha"] = static_cast<int64_t>(options.alpha);
  return json;
}

std::string ConfigText(const Adapter& adapter, const std::string& base_path) {
  Json json = adapter.options.rotation.has_value() ? RotationJson(adapter, base_path)
                                                   : LowRankJson(adapter, base_path);
  if (!adapter.options.saved.empty()) json["modules_to_save"] = adapter.options.saved;
  return json.dump(2) + "\n";
}

// Tensors of one file, each taken once.
class AdapterTensors {
 public:
  AdapterTensors(const ModelConfig& config, at::TensorOptions placed)
      : tables_{SavedName(EmbeddingName(config)), SavedName(HeadName(config))}, placed_(placed) {}

  absl::Status Open(const std::string& path) {
    path_ = path;
    ASSIGN_OR_RETURN(file_, SafetensorsFile::Open(path));
    return absl::OkStatus();
  }
  const SafetensorsFile& file() const { return *file_; }

  absl::StatusOr<at::Tensor> Take(const std::string& name, const std::vector<int64_t>& shape) {
    const auto entry = file_->entries().find(name);
    if (entry == file_->entries().end())
      return absl::NotFoundError(
          absl::StrCat("the tensor ", name, " ", ShapeText(shape), " is missing"));
    if (entry->second.shape != shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, ": shape ", ShapeText(entry->second.shape), ", this base wants ", ShapeText(shape),
          tables_.contains(name)
              ? "; where tokens were added when it was trained, add them again, with "
                "resize_vocab: true"
              : ""));
    }
    taken_.insert(name);
    ASSIGN_OR_RETURN(at::Tensor tensor, file_->Read(name));
    RETURN_IF_ERROR(comm::TryTorch([&] { broken_.Look(name, tensor); }), name);
    RETURN_IF_ERROR(
        comm::TryTorch([&] { tensor = tensor.to(placed_, /*non_blocking=*/false, /*copy=*/true); }),
        name);
    return tensor;
  }

  // That all of them were taken, and were numbers.
  absl::Status Finish(bool all) const {
    for (const auto& [name, entry] : file_->entries()) {
      if (all && !taken_.contains(name))
        return absl::InvalidArgumentError(
            absl::StrCat(path_, ": ", name, " is no weight of this adapter over this base"));
    }
    return broken_.Refuse(path_);
  }

 private:
  const std::set<std::string> tables_;
  const at::TensorOptions placed_;
  std::string path_;
  std::shared_ptr<const SafetensorsFile> file_;
  std::set<std::string> taken_;
  BrokenWeights broken_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Adapter>> ReadAdapter(const std::string& dir,
                                                     const ModelConfig& config,
                                                     at::ScalarType dtype, at::Device device) {
  RETURN_IF_ERROR(comm::CheckReading(dir));  // before anything is said of what is there
  const std::string config_path = absl::StrCat(dir, "/", kConfigFile),
                    weights_path = absl::StrCat(dir, "/", kWeightsFile);
  if (dir.empty() || !Exists(dir))
    return absl::NotFoundError(absl::StrCat("adapter_name_or_path: no folder '", dir, "'"));
  if (!Exists(config_path))
    return absl::NotFoundError(
        absl::StrCat("adapter_name_or_path: ", dir, " has no ", kConfigFile));
  if (!Exists(weights_path)) {
    const bool older = Exists(dir + "/adapter_model.bin");
    return absl::NotFoundError(absl::StrCat("adapter_name_or_path: ", dir, " has no ", kWeightsFile,
                                            older ? " (adapter_model.bin is not read)" : ""));
  }
  ASSIGN_OR_RETURN(const auto config_file, MappedFile::Open(config_path));
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonObject(config_file->bytes(), config_path));
  const JsonFields fields(json, config_path);
  RETURN_IF_ERROR(CheckSupported(fields, config));
  AdapterTensors tensors(config, at::TensorOptions(device).dtype(dtype)), first = tensors;
  RETURN_IF_ERROR(tensors.Open(weights_path));
  ASSIGN_OR_RETURN(AdapterOptions options, ReadOptions(fields, tensors.file()));
  const auto take_from = [](AdapterTensors& from) -> Adapter::Take {
    return [&from](const std::string& name, const std::vector<int64_t>& shape) {
      return from.Take(name, shape);
    };
  };
  const bool has_first = options.principal.has_value();
  if (has_first) {
    std::string first_path = absl::StrCat(dir, "/", kFirstFile);
    if (!Exists(first_path)) first_path = absl::StrCat(dir, "/", kFirstInFolder);
    if (!Exists(first_path)) {
      return absl::NotFoundError(absl::StrCat(
          config_path, ": init_lora_weights: ", InitOf(options).dump(),
          ": the first values are taken off the base, and neither ", kFirstFile, " nor ",
          kFirstInFolder, " is there; wanted one of them, or the converted adapter"));
    }
    RETURN_IF_ERROR(first.Open(first_path));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Adapter> adapter,
                   Adapter::Assemble(config, std::move(options), take_from(tensors),
                                     has_first ? take_from(first) : nullptr),
                   dir);
  RETURN_IF_ERROR(tensors.Finish(/*all=*/true));
  if (has_first) RETURN_IF_ERROR(first.Finish(/*all=*/false));
  return adapter;
}

absl::Status SaveAdapter(const std::string& dir, const Adapter& adapter,
                         const std::string& base_path,
                         const std::map<std::string, std::string>& companions, Flush flush) {
  LeasedTensors leased, first;
  for (const auto& parameter : adapter.parameters) leased.Add(parameter, parameter->dtype());
  for (const auto& parameter : adapter.first) first.Add(parameter, parameter->dtype());
  ASSIGN_OR_RETURN(StagedFiles files, StagedFiles::Create(dir, flush));
  RETURN_IF_ERROR(StageSafetensors(files, kWeightsFile, leased.tensors()));
  if (!adapter.first.empty()) RETURN_IF_ERROR(StageSafetensors(files, kFirstFile, first.tensors()));
  for (const auto& [name, contents] : companions) RETURN_IF_ERROR(files.Write(name, contents));
  RETURN_IF_ERROR(files.Write(kConfigFile, ConfigText(adapter, base_path)));
  return files.Commit();
}

}  // namespace moonring::model
