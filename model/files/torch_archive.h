#ifndef MOONRING_MODEL_FILES_TORCH_ARCHIVE_H_
#define MOONRING_MODEL_FILES_TORCH_ARCHIVE_H_

// Reads a file of torch.save: a zip archive of uncompressed records (NAME/data.pkl, NAME/data/0,
// NAME/byteorder, ...), each of which is a byte range of the file. The archive's directory is
// parsed here instead of by LibTorch, which allocates the size that the directory claims for a
// record before it checks the file's size. Cost: a small multiple of the directory's bytes.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/files/mapped_file.h"

namespace moonring::model {

class TorchArchive {
 public:
  struct Record {
    uint64_t offset = 0, size = 0;  // in bytes of the file
  };

  // INVALID_ARGUMENT, naming the file, if the file is truncated or another kind of zip, or was
  // saved by torch before 1.6 or on a machine with another byte order.
  static absl::StatusOr<std::unique_ptr<TorchArchive>> Open(std::shared_ptr<const MappedFile> file);

  const std::string& path() const { return file_->path(); }
  bool Has(const std::string& name) const { return entries_.contains(name); }

  // Finds a record by its name, for example "data.pkl". INVALID_ARGUMENT, naming file and record,
  // if the record is missing, compressed, or outside the file.
  absl::StatusOr<Record> Find(const std::string& name) const;
  absl::StatusOr<absl::string_view> Bytes(
      const std::string& name) const;  // a view of the mapped file

 private:
  struct Entry {
    uint64_t header = 0, size = 0;  // as the directory states; not yet checked
  };

  explicit TorchArchive(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}
  absl::Status ReadDirectory();
  absl::Status CheckByteOrder() const;

  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, Entry> entries_;  // by the record's name, without the archive's name
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_TORCH_ARCHIVE_H_
