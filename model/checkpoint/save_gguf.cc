#include "model/checkpoint/save_gguf.h"

#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "c10/util/Exception.h"
#include "model/config/config_difference.h"
#include "model/config/family.h"
#include "model/config/weights.h"
#include "model/files/mapped_file.h"
#include "model/files/weight_shape.h"
#include "model/gguf/config_to_gguf.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_layout.h"
#include "model/gguf/gguf_model.h"
#include "model/gguf/gguf_parts.h"
#include "model/gguf/gguf_tokenizer.h"
#include "model/gguf/gguf_writer.h"
#include "model/gguf/tokenizer_to_gguf.h"

namespace moonring::model {
namespace {

using ParametersByName = std::map<std::string, std::shared_ptr<base::Parameter>>;

// The contents of a GGUF file except the numbers of its tensors.
struct Plan {
  GgufMetadata metadata;
  std::vector<GgufTensorToWrite> tensors;  // the rotary embedding's tensors come first
  std::vector<std::string> notes;
};

// The value of the key general.file_type for a file most of whose tensors have this type.
int64_t FileType(const GgufType& type) {
  constexpr std::pair<absl::string_view, int64_t> kNumbers[] = {
      {"F32", 0}, {"F16", 1}, {"Q8_0", 7}, {"BF16", 32}};
  for (const auto& [name, number] : kNumbers) {
    if (name == type.name) return number;
  }
  TORCH_INTERNAL_ASSERT(false, "no file is of type ", type.name);
}

absl::StatusOr<const GgufType*> WritableType(const std::string& name) {
  const GgufType* type = FindGgufType(absl::AsciiStrToUpper(name));
  if (type != nullptr && type->writable()) return type;
  return absl::InvalidArgumentError(
      absl::StrCat("GGUF type: expected F32, F16, BF16 or Q8_0, got '", name, "'"));
}

const GgufType* StoredType(const std::string& tensor, const std::vector<int64_t>& shape,
                           const GgufType& type) {
  if (IsWideInGguf(tensor, shape.size())) return FindGgufType("F32");
  return shape.back() % type.elements == 0 ? &type : FindGgufType("F16");
}

// Adds the GGUF tensors of a weight to `tensors`. The weight of a single expert becomes one piece
// of the tensor that stacks all experts, which is added with the first expert. `lease` returns the
// weight's value.
void AddWeight(const ModelConfig& config, const GgufSource& source, const WeightShape& weight,
               const GgufType& type, const std::function<at::Tensor()>& lease,
               std::map<std::string, size_t>& places, std::vector<GgufTensorToWrite>& tensors) {
  const bool expert = source.parts == GgufParts::kExpert;
  for (size_t which = 0; which < source.tensors.size(); ++which) {
    const std::string& name = source.tensors[which];
    const auto [place, is_new] = places.try_emplace(name, tensors.size());
    if (is_new) {
      std::vector<int64_t> shape = ShapeInGguf(config, source, which, weight.shape);
      if (expert) shape.insert(shape.begin(), config.experts.count);
      tensors.push_back({name, shape, StoredType(name, shape, type), {}});
    }
    TORCH_INTERNAL_ASSERT(is_new || expert, name, " would be written twice");
    tensors[place->second].pieces.push_back(
        [&config, source, which, lease] { return ToGguf(config, source, which, lease()); });
  }
}

// The tensors to write. `parameters` is null if only the header is needed.
std::vector<GgufTensorToWrite> TensorsOf(const ModelConfig& config, const GgufType& type,
                                         const ParametersByName* parameters) {
  std::map<std::string, WeightShape> wanted;
  for (WeightShape& weight : WantedWeights(config)) {
    std::string name = weight.name;
    wanted[std::move(name)] = std::move(weight);
  }
  std::vector<GgufTensorToWrite> tensors = RotaryTensors(config);
  std::map<std::string, size_t> places;
  const auto newest = [](const std::string&) { return false; };
  size_t used = 0;
  for (const auto& [name, source] : GgufSources(config, newest)) {
    const auto weight = wanted.find(name);
    if (weight == wanted.end()) continue;  // a tied head is not written
    ++used;
    std::function<at::Tensor()> lease;
    if (parameters != nullptr) {
      lease = [parameter = parameters->at(name)] { return parameter->LeaseWhole(at::kFloat); };
    }
    AddWeight(config, source, weight->second, type, lease, places, tensors);
  }
  TORCH_INTERNAL_ASSERT(used == wanted.size(), used, " weights of ", wanted.size(), " have names");
  return tensors;
}

absl::StatusOr<Plan> PlanFile(const std::string& path, const ModelConfig& config,
                              const GgufOptions& options, const ParametersByName* parameters) {
  Plan plan;
  ASSIGN_OR_RETURN(const GgufType* type, WritableType(options.type));
  ASSIGN_OR_RETURN(plan.metadata, ConfigToGguf(config), path);
  plan.metadata.String("general.type", "model");
  if (!options.name.empty()) plan.metadata.String("general.name", options.name);
  plan.metadata.Int("general.file_type", FileType(*type));
  plan.metadata.Int("general.quantization_version", 2);
  ASSIGN_OR_RETURN(TokenizerMetadata tokenizer, TokenizerToGguf(options.companions, config, path));
  plan.metadata.Add(tokenizer.metadata);
  plan.notes = std::move(tokenizer.notes);
  plan.tensors = TensorsOf(config, *type, parameters);
  return plan;
}

// Parses the header that would be written, as if it were read from a file. The rotary tensors have
// their data, because a config is made from them.
absl::StatusOr<std::shared_ptr<const GgufFile>> ReadAgain(const std::string& path,
                                                          const ModelConfig& config,
                                                          const Plan& plan) {
  std::string bytes = GgufHeader(plan.metadata, plan.tensors);
  RETURN_IF_ERROR(WriteGgufData(RotaryTensors(config), [&](absl::string_view data) {
    absl::StrAppend(&bytes, data);
    return absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> mapped,
                   MappedFile::InMemory(path, bytes, GgufBytes(plan.metadata, plan.tensors)));
  return GgufFile::Of(std::move(mapped));
}

absl::Status CheckPlan(const std::string& path, const ModelConfig& config, const Plan& plan) {
  ASSIGN_OR_RETURN(std::shared_ptr<const GgufFile> file, ReadAgain(path, config, plan));
  RETURN_IF_ERROR(TokenizerFilesFromGguf(*file).status());
  ASSIGN_OR_RETURN(const std::unique_ptr<GgufModel> model, GgufModel::Open(std::move(file)));
  const std::string& architecture = config.family->gguf.architecture;
  if (const std::string difference = ConfigDifference(config, model->config());
      !difference.empty()) {
    const bool window = absl::StartsWith(difference, "the window");
    return absl::UnimplementedError(absl::StrCat(
        path, ": a GGUF file of the architecture ", architecture,
        " cannot represent this model: ", difference, " as it would be read from the file",
        window ? " (sliding_window: null in config.json writes it without)" : ""));
  }
  for (const WeightShape& wanted : WantedWeights(model->config())) {
    const auto found = model->weights().find(wanted.name);
    if (found == model->weights().end() || found->second.shape != wanted.shape) {
      return absl::UnimplementedError(absl::StrCat(path, ": a GGUF file of the architecture ",
                                                   architecture, " has no place for ", wanted.name,
                                                   " ", ShapeText(wanted.shape)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> CheckGguf(const std::string& path,
                                                   const ModelConfig& config,
                                                   const GgufOptions& options) {
  ASSIGN_OR_RETURN(const Plan plan, PlanFile(path, config, options, nullptr));
  RETURN_IF_ERROR(CheckPlan(path, config, plan));
  return plan.notes;
}

absl::Status SaveGguf(const std::string& path, const ModelConfig& config,
                      const base::Parameters& parameters, const GgufOptions& options) {
  ParametersByName by_name;
  for (const std::shared_ptr<base::Parameter>& parameter : parameters)
    by_name[parameter->name()] = parameter;
  const std::vector<WeightShape> wanted = WantedWeights(config);
  for (const WeightShape& weight : wanted) {
    const auto found = by_name.find(weight.name);
    TORCH_CHECK(found != by_name.end() && found->second->shape() == at::IntArrayRef(weight.shape),
                "the parameter ", weight.name, " ", ShapeText(weight.shape), " is missing");
  }
  TORCH_CHECK(by_name.size() == wanted.size(), by_name.size(),
              " parameters given, the config requires ", wanted.size());
  ASSIGN_OR_RETURN(const Plan plan, PlanFile(path, config, options, &by_name));
  RETURN_IF_ERROR(CheckPlan(path, config, plan));
  const std::filesystem::path file(path);
  ASSIGN_OR_RETURN(StagedFiles files,
                   StagedFiles::Create(file.has_parent_path() ? file.parent_path().string() : ".",
                                       options.flush));
  RETURN_IF_ERROR(StageGguf(files, file.filename().string(), plan.metadata, plan.tensors));
  return files.Commit();
}

}  // namespace moonring::model
