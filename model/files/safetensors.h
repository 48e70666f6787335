#ifndef MOONRING_MODEL_FILES_SAFETENSORS_H_
#define MOONRING_MODEL_FILES_SAFETENSORS_H_

// Reads safetensors files. The format is 8 bytes (little-endian length n), n bytes of JSON {name:
// {dtype, shape, data_offsets: [begin, end]}}, then the data.
//
// Open checks the whole header before any tensor is read: its length, the JSON, unknown dtypes,
// duplicate names, and ranges that are outside the file, overlap, leave gaps or do not match shape
// x element size. Each failure is INVALID_ARGUMENT and names file and tensor. Tensors are views of
// the mapped file. Little-endian hosts only.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/files/mapped_file.h"
#include "model/files/tensor_folder.h"
#include "model/files/weight_store.h"

namespace moonring::model {

class SafetensorsFile {
 public:
  static constexpr char kFileName[] = "model.safetensors",
                        kIndexName[] = "model.safetensors.index.json";

  struct Entry {
    at::ScalarType dtype;
    std::vector<int64_t> shape;
    uint64_t begin = 0, end = 0;  // bytes after the header
  };

  static absl::StatusOr<std::shared_ptr<const SafetensorsFile>> Open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::map<std::string, Entry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // The tensor must exist.
  StoredWeight Describe(const std::string& name) const;
  absl::StatusOr<at::Tensor> Read(const std::string& name) const;

 private:
  SafetensorsFile() = default;
  absl::Status ReadHeader();
  absl::Status CheckRanges(uint64_t data_size) const;

  std::shared_ptr<const MappedFile> file_;
  uint64_t data_begin_ = 0;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

// The weights of a Hugging Face folder: model.safetensors, or the shards listed in
// model.safetensors.index.json.
using SafetensorsFolder = TensorFolder<SafetensorsFile>;

// Convert between dtypes and their safetensors names ("BF16"). Return "" for a dtype that the
// format lacks, and nullopt for an unknown name.
absl::string_view SafetensorsDtype(at::ScalarType dtype);
std::optional<at::ScalarType> DtypeOfSafetensors(absl::string_view name);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_SAFETENSORS_H_
