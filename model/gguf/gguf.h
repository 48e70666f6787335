#ifndef MOONRING_MODEL_GGUF_GGUF_H_
#define MOONRING_MODEL_GGUF_GGUF_H_

// Reads GGUF files, versions 2 and 3. Their format is: magic "GGUF", version, counts, metadata
// (key, type, value), tensor descriptions (name, sizes, type, offset), then the data, aligned.
// Everything is little-endian, and is read from the mapped file.
//
// Open and Of parse the header once. They check every length against the rest of the file, and
// every tensor's range against the file's end; a truncated or inconsistent file is INVALID_ARGUMENT
// and the message states where. Cost: the header's bytes (mostly the vocabulary). Tensors are read
// as fp32: F32 as a view, other types dequantised (gguf_types.h). Reading a type that is not
// supported, or opening one of several files of a split model, is UNIMPLEMENTED.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/files/mapped_file.h"

namespace moonring::model {

enum class GgufValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64
};

class GgufFile {
 public:
  struct Array {
    GgufValueType type;
    uint64_t count;
    absl::string_view bytes;  // the elements as stored; strings with their lengths
  };
  using Value = std::variant<bool, int64_t, uint64_t, double, absl::string_view, Array>;

  struct Tensor {
    std::vector<int64_t> shape;  // in Hugging Face's order: the file's sizes reversed, rows last
    uint32_t type = 0;
    uint64_t offset = 0, bytes = 0;  // in the file
  };

  static absl::StatusOr<std::shared_ptr<const GgufFile>> Open(const std::string& path);
  static absl::StatusOr<std::shared_ptr<const GgufFile>> Of(
      std::shared_ptr<const MappedFile> mapped);

  const std::string& path() const { return file_->path(); }
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  const std::map<std::string, Value>& metadata() const { return metadata_; }
  bool Has(const std::string& key) const { return metadata_.contains(key); }

  // Typed access to metadata. NOT_FOUND if the key is missing, INVALID_ARGUMENT if its value has
  // another type; the message names file and key.
  absl::StatusOr<int64_t> Int(const std::string& key) const;
  absl::StatusOr<double> Number(const std::string& key) const;
  absl::StatusOr<bool> Bool(const std::string& key) const;
  absl::StatusOr<absl::string_view> String(const std::string& key) const;
  absl::StatusOr<std::vector<absl::string_view>> Strings(
      const std::string& key) const;  // views of the file
  absl::StatusOr<std::vector<int64_t>> Ints(const std::string& key) const;
  absl::StatusOr<std::vector<double>> Numbers(const std::string& key) const;

  absl::StatusOr<at::Tensor> Read(const std::string& name) const;
  // Reads slice `index` of the first dim, and dequantises only that slice. The tensor must have at
  // least two dims.
  absl::StatusOr<at::Tensor> ReadSlice(const std::string& name, int64_t index) const;

  // Read a tensor, or a slice of one, without dequantising. Both return uint8 views of the file
  // with the tensor's shape, except that the last dim is the number of bytes of a row's blocks.
  absl::StatusOr<at::Tensor> ReadBlocks(const std::string& name) const;
  absl::StatusOr<at::Tensor> ReadBlocksOfSlice(const std::string& name, int64_t index) const;

 private:
  GgufFile() = default;
  absl::Status ReadHeader();
  absl::Status CheckWhole() const;
  absl::StatusOr<const Value*> Find(const std::string& key) const;
  absl::Status Wrong(const std::string& key, absl::string_view wanted) const;
  absl::StatusOr<const Tensor*> FindTensor(const std::string& name) const;
  absl::StatusOr<Tensor> FindSlice(const std::string& name, int64_t index) const;
  absl::StatusOr<at::Tensor> ReadAt(const std::string& name, const Tensor& tensor) const;
  at::Tensor BlocksAt(const Tensor& tensor) const;

  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, Value> metadata_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_H_
