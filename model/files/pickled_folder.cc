#include "model/files/pickled_folder.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "model/files/json_text.h"
#include "model/files/safetensors.h"
#include "model/files/weight_shape.h"

namespace moonring::model {
namespace {

// The number of elements of a tensor, and the number of storage elements from its first to its last
// element.
struct Extent {
  int64_t elements = 1, span = 1;
};
bool Measure(const PickledTensor& tensor, Extent* extent) {
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] == 0) {
      *extent = {0, 0};
      return true;
    }
    int64_t leap;
    if (__builtin_mul_overflow(extent->elements, tensor.shape[i], &extent->elements) ||
        __builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &leap) ||
        __builtin_add_overflow(extent->span, leap, &extent->span)) {
      return false;
    }
  }
  return true;
}

bool IsContiguous(const PickledTensor& tensor) {
  int64_t stride = 1;  // does not overflow: Measure has checked the sizes
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != stride) return false;
    stride *= tensor.shape[i];
  }
  return true;
}

// Finds the bytes of `tensor` in its storage, the record `record`.
absl::StatusOr<PickledFile::Entry> Place(const PickledTensor& tensor,
                                         const TorchArchive::Record& record) {
  const uint64_t element_size = c10::elementSize(tensor.dtype);
  if (static_cast<uint64_t>(tensor.storage_size) > record.size / element_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("its storage has ", tensor.storage_size, " elements of ", element_size,
                     " bytes, but the record data/", Shown(tensor.storage, 20), " has ",
                     record.size, " bytes (truncated?)"));
  }
  PickledFile::Entry entry{tensor.dtype, tensor.shape, tensor.strides};
  Extent extent;
  if (!Measure(tensor, &extent) || tensor.offset > tensor.storage_size ||
      extent.span > tensor.storage_size - tensor.offset) {
    return absl::InvalidArgumentError(
        absl::StrCat(ShapeText(tensor.shape), " with strides ", ShapeText(tensor.strides),
                     " from element ", tensor.offset, " on goes beyond its storage, which has ",
                     tensor.storage_size, " elements"));
  }
  if (extent.elements > tensor.storage_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(ShapeText(tensor.shape), " has more elements than its storage (",
                     tensor.storage_size, "), an expanded view: save it contiguous"));
  }
  entry.begin = record.offset + static_cast<uint64_t>(tensor.offset) * element_size;
  entry.span = extent.span;
  entry.contiguous = extent.elements == 0 || IsContiguous(tensor);
  return entry;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PickledFile>> PickledFile::Open(const std::string& path) {
  std::shared_ptr<PickledFile> file(new PickledFile);
  ASSIGN_OR_RETURN(file->file_, MappedFile::Open(path));
  ASSIGN_OR_RETURN(const std::unique_ptr<TorchArchive> archive, TorchArchive::Open(file->file_));
  ASSIGN_OR_RETURN(const absl::string_view pickle, archive->Bytes("data.pkl"));
  ASSIGN_OR_RETURN(const auto tensors, ReadTensorPickle(pickle, absl::StrCat(path, ": data.pkl")));
  std::map<std::string, TorchArchive::Record> storages;
  for (const auto& [name, tensor] : tensors) {
    const auto [storage, is_new] = storages.try_emplace(tensor.storage);
    if (is_new) {
      ASSIGN_OR_RETURN(storage->second, archive->Find(absl::StrCat("data/", tensor.storage)));
    }
    ASSIGN_OR_RETURN(file->entries_[name], Place(tensor, storage->second), path, ": ", Shown(name));
  }
  return file;
}

absl::StatusOr<at::Tensor> PickledFile::Read(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    return absl::NotFoundError(absl::StrCat(path(), ": no tensor '", name, "'"));
  const Entry& entry = found->second;
  if (entry.contiguous) return ViewOf(file_, entry.begin, entry.shape, entry.dtype);
  return ViewOf(file_, entry.begin, {entry.span}, entry.dtype)
      .as_strided(entry.shape, entry.strides)
      .contiguous();
}

StoredWeight PickledFile::Describe(const std::string& name) const {
  const Entry& entry = entries_.at(name);
  return {path(), entry.shape, std::string(SafetensorsDtype(entry.dtype)),
          IsWeightDtype(entry.dtype)
              ? ""
              : absl::StrCat("dtype ", c10::toString(entry.dtype),
                             " is not supported as a weight (F32, BF16, F16, F64 are)")};
}

}  // namespace moonring::model
