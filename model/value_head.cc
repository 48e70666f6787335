#include "model/value_head.h"

#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "kernels/random/counter_random.h"
#include "model/files/json_text.h"
#include "model/files/leased_tensors.h"
#include "model/files/safetensors.h"
#include "model/files/safetensors_writer.h"
#include "model/files/staged_files.h"
#include "model/files/weight_shape.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

constexpr char kFile[] = "value_head.safetensors", kWeight[] = "v_head.summary.weight",
               kBias[] = "v_head.summary.bias";

absl::StatusOr<at::Tensor> ReadTensor(const SafetensorsFile& file, const std::string& name,
                                      const std::vector<int64_t>& shape) {
  const auto entry = file.entries().find(name);
  if (entry == file.entries().end())
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": ", name, " ", ShapeText(shape), " is missing"));
  if (entry->second.shape != shape) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", name, ": shape ",
                                                   ShapeText(entry->second.shape),
                                                   ", this model requires ", ShapeText(shape)));
  }
  return file.Read(name);
}

// For messages: the path of config.json in `dir` if that file exists, which it does not for an
// adapter's folder or a .gguf file.
std::string PlaceOfConfig(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/config.json");
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return path;
  return std::filesystem::is_directory(dir, ignored) ? "the model's config.json" : dir;
}

}  // namespace

absl::StatusOr<std::shared_ptr<ValueHead>> ValueHead::Open(const std::string& dir,
                                                           const ModelConfig& config, uint64_t seed,
                                                           at::ScalarType dtype,
                                                           at::Device device) {
  auto head = std::make_shared<ValueHead>();
  const std::string path = absl::StrCat(dir, "/", kFile);
  RETURN_IF_ERROR(base::CheckReading(path));
  const std::string place = PlaceOfConfig(dir);
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonObject(config.json, place));
  ASSIGN_OR_RETURN(head->dropout, JsonFields(json, place).Number("summary_dropout_prob", 0.1));
  if (!(head->dropout >= 0.0 && head->dropout < 1.0)) {
    return absl::InvalidArgumentError(absl::StrCat(place, ": summary_dropout_prob: ", head->dropout,
                                                   ", expected 0 or more and below 1"));
  }
  std::shared_ptr<const SafetensorsFile> file;
  std::error_code ignored;
  head->found = std::filesystem::exists(path, ignored);
  if (head->found) {
    ASSIGN_OR_RETURN(file, SafetensorsFile::Open(path));
  }
  const auto make =
      [&](const char* name,
          const std::vector<int64_t>& shape) -> absl::StatusOr<std::shared_ptr<base::Parameter>> {
    at::NoGradGuard no_grad;
    at::Tensor tensor;
    if (head->found) {
      ASSIGN_OR_RETURN(tensor, ReadTensor(*file, name, shape));
    } else {
      const double bound = 1.0 / std::sqrt(static_cast<double>(config.hidden_size));
      tensor = kernels::InitialUniform(seed, name, shape)
                   .to(at::kDouble)
                   .mul_(2.0)
                   .sub_(1.0)
                   .mul_(bound);
    }
    RETURN_IF_ERROR(base::TryTorch([&] {
                      tensor = tensor.to(at::TensorOptions(device).dtype(dtype),
                                         /*non_blocking=*/false, /*copy=*/true);
                    }),
                    name);
    return std::make_shared<base::Parameter>(name, std::move(tensor));
  };
  ASSIGN_OR_RETURN(head->weight_1D, make(kWeight, {1, config.hidden_size}));
  ASSIGN_OR_RETURN(head->bias_1, make(kBias, {1}));
  return head;
}

absl::Status ValueHead::Save(const std::string& dir, Flush flush) const {
  LeasedTensors leased;
  for (const auto& parameter : {weight_1D, bias_1}) leased.Add(parameter, parameter->dtype());
  ASSIGN_OR_RETURN(StagedFiles files, StagedFiles::Create(dir, flush));
  RETURN_IF_ERROR(StageSafetensors(files, kFile, leased.tensors()));
  return files.Commit();
}

}  // namespace moonring::model
