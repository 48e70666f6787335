#ifndef MOONRING_MODEL_TORCH_ARCHIVE_H_
#define MOONRING_MODEL_TORCH_ARCHIVE_H_

// A file of torch.save: a zip archive of records stored as they are (NAME/data.pkl, NAME/data/0, NAME/byteorder, ...), so that a record is
// a range of the file. LibTorch reads the archive's directory; where each record lies is checked here against the mapped file.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/mapped_file.h"

namespace caffe2::serialize {
class PyTorchStreamReader;
}

namespace moonring::model {

class TorchArchive {
 public:
  struct Record {
    uint64_t offset = 0, size = 0;  // bytes of the file
  };

  // INVALID_ARGUMENT naming the file where it is not such an archive (cut off, another kind of zip), was saved by torch before 1.6, or by a
  // machine of another byte order.
  static absl::StatusOr<std::unique_ptr<TorchArchive>> Open(std::shared_ptr<const MappedFile> file);
  ~TorchArchive();

  const std::string& path() const { return file_->path(); }
  bool Has(const std::string& name) const;

  // By its name in the archive: "data.pkl". INVALID_ARGUMENT naming file and record where it is missing, compressed, or outside of the file.
  absl::StatusOr<Record> Find(const std::string& name) const;
  absl::StatusOr<absl::string_view> Bytes(const std::string& name) const;  // a view of the mapped file

 private:
  TorchArchive(std::shared_ptr<const MappedFile> file, std::unique_ptr<caffe2::serialize::PyTorchStreamReader> reader);
  absl::Status CheckByteOrder() const;

  std::shared_ptr<const MappedFile> file_;
  std::unique_ptr<caffe2::serialize::PyTorchStreamReader> reader_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_TORCH_ARCHIVE_H_
