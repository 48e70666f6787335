#ifndef MOONRING_MODEL_FILES_PICKLED_FOLDER_H_
#define MOONRING_MODEL_FILES_PICKLED_FOLDER_H_

// Weights in the format of torch.save, pytorch_model.bin: an archive of storages (torch_archive.h)
// and a pickle that states each tensor's storage and offset (tensor_pickle.h). Only tensors are
// read, and nothing in the pickle is run.
//
// Open checks every tensor against its storage and every storage against the file; each failure is
// INVALID_ARGUMENT and names file and tensor. A contiguous tensor is a view of the mapped file,
// also if several tensors share a storage; a non-contiguous tensor is copied when it is read. A
// tensor with more elements than its storage (an expanded view) is refused, because a file of a few
// bytes could otherwise request any amount of memory.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "model/files/mapped_file.h"
#include "model/files/tensor_folder.h"
#include "model/files/tensor_pickle.h"
#include "model/files/torch_archive.h"
#include "model/files/weight_store.h"

namespace moonring::model {

class PickledFile {
 public:
  static constexpr char kFileName[] = "pytorch_model.bin",
                        kIndexName[] = "pytorch_model.bin.index.json";

  struct Entry {
    at::ScalarType dtype;
    std::vector<int64_t> shape, strides;
    uint64_t begin = 0;  // byte offset of the first element in the file
    // Number of elements in the storage from the tensor's first to its last, including those that
    // the strides skip.
    int64_t span = 0;
    bool contiguous = true;
  };

  static absl::StatusOr<std::shared_ptr<const PickledFile>> Open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::map<std::string, Entry>& entries() const { return entries_; }
  // The tensor must exist.
  StoredWeight Describe(const std::string& name) const;
  absl::StatusOr<at::Tensor> Read(const std::string& name) const;

 private:
  PickledFile() = default;

  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, Entry> entries_;
};

// The weights of a Hugging Face folder: pytorch_model.bin, or the shards listed in
// pytorch_model.bin.index.json.
using PickledFolder = TensorFolder<PickledFile>;

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_PICKLED_FOLDER_H_
