#include "model/checkpoint/save_folder.h"

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "base/text/ordered_json.h"
#include "c10/util/Exception.h"
#include "model/config/family.h"
#include "model/config/text_config.h"
#include "model/config/weights.h"
#include "model/files/json_text.h"
#include "model/files/leased_tensors.h"
#include "model/files/safetensors_writer.h"
#include "model/files/staged_files.h"
#include "model/files/weight_shape.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

absl::StatusOr<std::string> DtypeName(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "float32";
    case at::kBFloat16:
      return "bfloat16";
    case at::kHalf:
      return "float16";
    case at::kDouble:
      return "float64";
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("weights cannot be saved as ", c10::toString(dtype)));
  }
}

// Copies the contents of rope_parameters to the top level, where Transformers 4 reads them. The
// theta of a second rotary embedding is written under Gemma 3's key.
void AddOlderRope(const ModelConfig& config, base::OrderedJson& json) {
  json["rope_theta"] = config.rotaries[0].theta;
  if (config.rotaries.back().theta != config.rotaries[0].theta)
    json["rope_local_base_freq"] = config.rotaries.back().theta;
  base::OrderedJson scaling = json["rope_parameters"];
  if (!scaling.is_object()) return;
  if (scaling.contains("full_attention")) scaling = base::OrderedJson(scaling["full_attention"]);
  if (scaling.contains("partial_rotary_factor") && !json.contains("partial_rotary_factor"))
    json["partial_rotary_factor"] = scaling["partial_rotary_factor"];
  if (json.contains("rope_scaling")) return;
  scaling.erase("rope_theta");
  scaling.erase("partial_rotary_factor");
  // Even if rope is not scaled there may be other keys, such as mrope_section, which Transformers 4
  // reads in rope_scaling.
  const bool says_more = scaling.size() > (scaling.contains("rope_type") ? 1 : 0);
  if (config.rotaries[0].kind == RopeKind::kDefault && !says_more) {
    if (config.family->scaled_by_default) json["rope_scaling"] = nullptr;
    return;
  }
  if (config.rotaries[0].kind == RopeKind::kLongRope) {
    // Transformers 4's config of Phi-3 expects only `type` and the two lists long_factor and
    // short_factor in rope_scaling. It reads the original context length at the top level.
    constexpr char kContext[] = "original_max_position_embeddings";
    if (scaling.contains(kContext) && !json.contains(kContext)) json[kContext] = scaling[kContext];
    scaling.erase(kContext);
    scaling.erase("rope_type");
    scaling["type"] = "longrope";
  }
  json["rope_scaling"] = scaling;
}

// Returns the text of the config.json to save. Transformers 5 writes the dtype as `dtype`,
// Transformers 4 as `torch_dtype`. Those of the two keys that the file already has are set; if it
// has neither, torch_dtype is added, which both versions read.
std::string ConfigText(const ModelConfig& config, const std::string& dtype) {
  base::OrderedJson root = base::OrderedJson::parse(config.json);
  root.erase("quantization_config");  // the saved weights are not quantised
  const bool newer = root.contains("dtype");
  if (newer) root["dtype"] = dtype;
  if (!newer || root.contains("torch_dtype")) root["torch_dtype"] = dtype;
  base::OrderedJson& json = TextConfigOf(*config.family, root);
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (json.contains(key)) json[key] = dtype;
  }
  if (!config.family->newer && json.contains("rope_parameters") && !json.contains("rope_theta"))
    AddOlderRope(config, json);
  // Transformers 4 reads the number of Qwen3-MoE's experts only as num_experts; Transformers 5
  // reads both names.
  if (json.contains("num_local_experts") && !json.contains("num_experts"))
    json["num_experts"] = json["num_local_experts"];
  if (json.contains("layer_types")) {
    for (base::OrderedJson& type : json["layer_types"]) {
      for (const auto& [newer_type, older_type] : config.family->older_layer_types)
        if (type == newer_type) type = older_type;
    }
  }
  return (config.python_numbers ? DumpForPython(std::move(root)) : root.dump(2)) + "\n";
}

// The dtype that a weight is saved in: weights that are never trained keep their stored dtype, if
// known.
at::ScalarType SavedDtype(const WeightShape& weight, at::ScalarType dtype,
                          const CarriedWeights& carried) {
  if (weight.learns) return dtype;
  const auto own = carried.dtypes.find(weight.name);
  if (own != carried.dtypes.end()) return own->second;
  return dtype == at::kDouble ? dtype : at::kFloat;
}

// Adds the parameters to the list of weights to write, in the order of the forward pass.
void AddInOrder(const ModelConfig& config, const base::Parameters& parameters, at::ScalarType dtype,
                const CarriedWeights& carried, LeasedTensors& leased) {
  std::map<std::string, std::shared_ptr<base::Parameter>> by_name;
  for (const std::shared_ptr<base::Parameter>& parameter : parameters)
    by_name[parameter->name()] = parameter;
  for (WeightShape& wanted : WantedWeights(config)) {
    const auto found = by_name.find(wanted.name);
    TORCH_CHECK(found != by_name.end(), "the parameter ", wanted.name, " ", ShapeText(wanted.shape),
                " is missing");
    const at::IntArrayRef sizes = found->second->shape();
    TORCH_CHECK(sizes == at::IntArrayRef(wanted.shape), wanted.name, " has shape ", sizes,
                ", the config requires ", ShapeText(wanted.shape));
    leased.Add(found->second, SavedDtype(wanted, dtype, carried),
               carried.stored_name ? carried.stored_name(wanted.name) : wanted.name);
  }
  TORCH_CHECK(leased.tensors().size() == parameters.size(), parameters.size(),
              " parameters given, the config requires ", leased.tensors().size());
}

bool IsWeightFile(absl::string_view name) {
  return absl::StartsWith(name, "model") &&
         (absl::EndsWith(name, ".safetensors") || absl::EndsWith(name, ".safetensors.index.json"));
}

// Changes `tensors` so that `work` counts each tensor when the writer requests it.
void CountWritten(std::vector<TensorToWrite>& tensors,
                  const std::shared_ptr<base::WorkCount>& work) {
  work->total += static_cast<int64_t>(tensors.size());
  for (TensorToWrite& each : tensors) {
    each.tensor = [tensor = std::move(each.tensor), work] {
      ++work->done;
      return tensor();
    };
  }
}

// Removes weight files of a model that was saved in the folder earlier. Otherwise, for example, its
// model.safetensors would be read instead of the new shards.
absl::Status RemoveOlderWeights(const std::string& dir, const std::set<std::string>& written) {
  std::error_code error;
  std::vector<std::filesystem::path> older;
  for (std::filesystem::directory_iterator entry(dir, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().native();
    if (IsWeightFile(name) && !written.contains(name)) older.push_back(entry->path());
  }
  for (const std::filesystem::path& path : older) {
    if (!error) std::filesystem::remove(path, error);
  }
  if (error)
    return absl::ErrnoToStatus(error.value(),
                               absl::StrCat(dir, ": older weights cannot be removed"));
  return absl::OkStatus();
}

}  // namespace

absl::Status SaveFolder(const std::string& dir, const ModelConfig& config,
                        const base::Parameters& parameters, at::ScalarType dtype,
                        const std::map<std::string, std::string>& companions, int64_t shard_bytes,
                        Flush flush, const CarriedWeights& carried,
                        const std::shared_ptr<base::WorkCount>& work) {
  TORCH_CHECK(shard_bytes > 0, "shard_bytes is ", shard_bytes, ", expected a positive number");
  ASSIGN_OR_RETURN(const std::string dtype_name, DtypeName(dtype));
  LeasedTensors leased;
  AddInOrder(config, parameters, dtype, carried, leased);
  ASSIGN_OR_RETURN(StagedFiles files, StagedFiles::Create(dir, flush));
  std::vector<TensorToWrite> tensors = leased.tensors();
  tensors.insert(tensors.end(), carried.tensors.begin(), carried.tensors.end());
  if (work != nullptr) CountWritten(tensors, work);
  RETURN_IF_ERROR(StageShards(files, tensors, shard_bytes));
  const std::set<std::string> written(files.names().begin(), files.names().end());
  for (const auto& [name, contents] : companions) RETURN_IF_ERROR(files.Write(name, contents));
  RETURN_IF_ERROR(files.Write("config.json", ConfigText(config, dtype_name)));
  RETURN_IF_ERROR(files.Commit());
  return RemoveOlderWeights(dir, written);
}

}  // namespace moonring::model
