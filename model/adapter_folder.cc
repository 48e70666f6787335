#include "model/adapter_folder.h"

#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "absl/strings/match.h"
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

// Options that change what an adapter computes and that are not supported.
constexpr const char* kUnsupported[] = {"rank_pattern",
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

absl::Status CheckSupported(const JsonFields& fields, const ModelConfig& config) {
  const auto refuse = [&](absl::string_view key, const nlohmann::json& value,
                          absl::string_view why) {
    return absl::UnimplementedError(
        absl::StrCat(fields.where(), ": ", key, ": ", ShownJson(value), why));
  };
  ASSIGN_OR_RETURN(const std::string type, fields.String("peft_type", ""));
  if (type != "LORA") return refuse("peft_type", type, ": wanted LORA");
  for (const char* key : kUnsupported) {
    const nlohmann::json* value = fields.Find(key);
    if (value != nullptr && !AsksForNothing(*value))
      return refuse(key, *value, " is not supported");
  }
  ASSIGN_OR_RETURN(const std::string bias, fields.String("bias", "none"));
  if (bias != "none") return refuse("bias", bias, " is not supported, biases stay the base's");
  const nlohmann::json* init = fields.Find("init_lora_weights");
  if (init != nullptr && init->is_string() && *init != "gaussian" && *init != "orthogonal" &&
      *init != "eva") {
    return refuse("init_lora_weights", *init,
                  " is not supported: it changes the base's weights too");
  }
  ASSIGN_OR_RETURN(const bool tying, fields.Bool("ensure_weight_tying", false));
  if (tying && config.tie_word_embeddings)
    return refuse("ensure_weight_tying", true, " is not supported");
  return absl::OkStatus();
}

// The modules that have low-rank weights in the file.
std::vector<std::string> ModulesIn(const SafetensorsFile& file) {
  std::vector<std::string> modules;
  for (const auto& [name, entry] : file.entries()) {
    if (!absl::EndsWith(name, ".lora_A.weight")) continue;
    modules.emplace_back(
        absl::StripPrefix(absl::StripSuffix(name, ".lora_A.weight"), "base_model.model."));
  }
  return modules;
}

absl::StatusOr<AdapterOptions> ReadOptions(const JsonFields& fields, const SafetensorsFile& file) {
  AdapterOptions options;
  ASSIGN_OR_RETURN(options.rank, fields.Int("r"));
  if (options.rank < 1)
    return absl::InvalidArgumentError(
        absl::StrCat(fields.where(), ": r: ", options.rank, ", wanted 1 or more"));
  ASSIGN_OR_RETURN(options.alpha, fields.Number("lora_alpha", 8.0));
  ASSIGN_OR_RETURN(options.dropout, fields.Number("lora_dropout", 0.0));
  ASSIGN_OR_RETURN(options.rslora, fields.Bool("use_rslora", false));
  ASSIGN_OR_RETURN(options.dora, fields.Bool("use_dora", false));
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

std::string ConfigText(const Adapter& adapter, const std::string& base_path) {
  const AdapterOptions& options = adapter.options;
  const auto null = nlohmann::ordered_json(nullptr), none = nlohmann::ordered_json::object();
  const bool whole = options.alpha == static_cast<double>(static_cast<int64_t>(options.alpha));
  nlohmann::ordered_json json = {
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
      {"init_lora_weights", true},
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
  if (!options.saved.empty()) json["modules_to_save"] = options.saved;
  return json.dump(2) + "\n";
}

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
  ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(weights_path));
  ASSIGN_OR_RETURN(AdapterOptions options, ReadOptions(fields, *file));
  std::set<std::string> taken;
  BrokenWeights broken;
  const auto take = [&](const std::string& name,
                        const std::vector<int64_t>& shape) -> absl::StatusOr<at::Tensor> {
    const auto entry = file->entries().find(name);
    if (entry == file->entries().end())
      return absl::NotFoundError(
          absl::StrCat("the tensor ", name, " ", ShapeText(shape), " is missing"));
    if (entry->second.shape != shape) {
      const bool table =
          name == SavedName(EmbeddingName(config)) || name == SavedName(HeadName(config));
      return absl::InvalidArgumentError(absl::StrCat(
          name, ": shape ", ShapeText(entry->second.shape), ", this base wants ", ShapeText(shape),
          table ? "; where tokens were added when it was trained, add them again, with "
                  "resize_vocab: true"
                : ""));
    }
    taken.insert(name);
    ASSIGN_OR_RETURN(at::Tensor tensor, file->Read(name));
    RETURN_IF_ERROR(comm::TryTorch([&] { broken.Look(name, tensor); }), name);
    RETURN_IF_ERROR(comm::TryTorch([&] {
                      tensor = tensor.to(at::TensorOptions(device).dtype(dtype),
                                         /*non_blocking=*/false, /*copy=*/true);
                    }),
                    name);
    return tensor;
  };
  ASSIGN_OR_RETURN(std::shared_ptr<Adapter> adapter,
                   Adapter::Assemble(config, std::move(options), take), dir);
  for (const auto& [name, entry] : file->entries()) {
    if (!taken.contains(name))
      return absl::InvalidArgumentError(
          absl::StrCat(weights_path, ": ", name, " is no weight of this adapter over this base"));
  }
  RETURN_IF_ERROR(broken.Refuse(weights_path));
  return adapter;
}

absl::Status SaveAdapter(const std::string& dir, const Adapter& adapter,
                         const std::string& base_path,
                         const std::map<std::string, std::string>& companions, Flush flush) {
  LeasedTensors leased;
  for (const auto& parameter : adapter.parameters) leased.Add(parameter, parameter->dtype());
  ASSIGN_OR_RETURN(StagedFiles files, StagedFiles::Create(dir, flush));
  RETURN_IF_ERROR(StageSafetensors(files, kWeightsFile, leased.tensors()));
  for (const auto& [name, contents] : companions) RETURN_IF_ERROR(files.Write(name, contents));
  RETURN_IF_ERROR(files.Write(kConfigFile, ConfigText(adapter, base_path)));
  return files.Commit();
}

}  // namespace moonring::model
