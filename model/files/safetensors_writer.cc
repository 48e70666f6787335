#include "model/files/safetensors_writer.h"

#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "base/text/ordered_json.h"
#include "model/files/safetensors.h"
#include "model/files/weight_shape.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

using base::OrderedJson;

int64_t Bytes(const TensorToWrite& tensor) {
  return c10::multiply_integers(tensor.shape) *
         static_cast<int64_t>(c10::elementSize(tensor.dtype));
}

// The header of a file: the length, then the JSON, padded with spaces so that the data start at a
// multiple of 8 bytes.
absl::StatusOr<std::string> Header(const std::vector<TensorToWrite>& tensors) {
  std::set<std::string> names;
  std::string text = R"({"__metadata__":{"format":"pt"})";
  int64_t at = 0;
  for (const TensorToWrite& tensor : tensors) {
    const absl::string_view dtype = SafetensorsDtype(tensor.dtype);
    if (dtype.empty())
      return absl::InvalidArgumentError(
          absl::StrCat("safetensors has no dtype for ", c10::toString(tensor.dtype)));
    if (!names.insert(tensor.name).second)
      return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name, "' is there twice"));
    const OrderedJson entry = {{"dtype", std::string(dtype)},
                               {"shape", tensor.shape},
                               {"data_offsets", {at, at + Bytes(tensor)}}};
    absl::StrAppend(&text, ",", OrderedJson(tensor.name).dump(), ":", entry.dump());
    at += Bytes(tensor);
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  return absl::StrCat(absl::string_view(reinterpret_cast<const char*>(&length), sizeof(length)),
                      text);
}

absl::Status AppendTensor(StagedFiles& files, const TensorToWrite& wanted) {
  return base::TryTorch([&]() -> absl::Status {
    const at::Tensor tensor = wanted.tensor().detach().to(at::kCPU, wanted.dtype).contiguous();
    TORCH_CHECK(tensor.sizes() == at::IntArrayRef(wanted.shape), wanted.name, " has shape ",
                tensor.sizes(), ", expected ", at::IntArrayRef(wanted.shape));
    return files.Append({static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()});
  });
}

}  // namespace

absl::Status StageSafetensors(StagedFiles& files, const std::string& file,
                              const std::vector<TensorToWrite>& tensors) {
  ASSIGN_OR_RETURN(const std::string header, Header(tensors), file);
  RETURN_IF_ERROR(files.Begin(file));
  RETURN_IF_ERROR(files.Append(header));
  for (const TensorToWrite& tensor : tensors) RETURN_IF_ERROR(AppendTensor(files, tensor));
  return files.End();
}

absl::Status WriteSafetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                              Flush flush) {
  const std::filesystem::path file(path);
  ASSIGN_OR_RETURN(
      StagedFiles files,
      StagedFiles::Create(file.has_parent_path() ? file.parent_path().string() : ".", flush));
  RETURN_IF_ERROR(StageSafetensors(files, file.filename().string(), tensors));
  return files.Commit();
}

absl::Status StageShards(StagedFiles& files, const std::vector<TensorToWrite>& tensors,
                         int64_t shard_bytes) {
  std::vector<std::vector<TensorToWrite>> shards(1);
  int64_t total = 0, in_shard = 0;
  for (const TensorToWrite& tensor : tensors) {
    const int64_t bytes = Bytes(tensor);
    if (in_shard > 0 && in_shard + bytes > shard_bytes) {
      shards.emplace_back();
      in_shard = 0;
    }
    shards.back().push_back(tensor);
    in_shard += bytes;
    total += bytes;
  }
  if (shards.size() == 1) return StageSafetensors(files, "model.safetensors", tensors);

  nlohmann::json weight_map = nlohmann::json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file =
        absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1, shards.size());
    RETURN_IF_ERROR(StageSafetensors(files, file, shards[i]));
    for (const TensorToWrite& tensor : shards[i]) weight_map[tensor.name] = file;
  }
  const nlohmann::json index = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
  return files.Write("model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace moonring::model
