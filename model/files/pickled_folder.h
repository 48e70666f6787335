#ifndef MOONRING_MODEL_FILES_PICKLED_FOLDER_H_
#define MOONRING_MODEL_FILES_PICKLED_FOLDER_H_

// Weights as torch.save writes them, pytorch_model.bin: an archive of storages (torch_archive.h)
// and a pickle that says which tensor lies where in which of them (tensor_pickle.h). Tensors alone
// are read, and nothing in the pickle is run.
//
// Open checks every tensor against its storage and every storage against the file; each failure is
// INVALID_ARGUMENT naming file and tensor. A contiguous tensor is a view of the mapped file, also
// where several share a storage; another is copied when it is read. One that is larger than its
// storage (an expanded view) is refused: a file of a few bytes could ask for any memory.

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
    uint64_t begin = 0;  // byte of the file at which the first element lies
    int64_t span = 0;  // elements from the first to the last, both counted: those that the strides
                       // leap over too
    bool contiguous = true;
  };

  static absl::StatusOr<std::shared_ptr<const PickledFile>> Open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::map<std::string, Entry>& entries() const { return entries_; }
  // Of a tensor that there is.
  StoredWeight Describe(const std::string& name) const;
  absl::StatusOr<at::Tensor> Read(const std::string& name) const;

 private:
  PickledFile() = default;

  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, Entry> entries_;
};

// The weights of a Hugging Face folder: pytorch_model.bin, or the shards that
// pytorch_model.bin.index.json names.
using PickledFolder = TensorFolder<PickledFile>;

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_PICKLED_FOLDER_H_
