#include "model/torch_archive.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "caffe2/serialize/inline_container.h"
#include "comm/status_macros.h"
#include "comm/torch_status.h"
#include "model/json_text.h"

namespace moonring::model {
namespace {

static_assert(std::endian::native == std::endian::little);

using caffe2::serialize::PyTorchStreamReader;

// The mapped file as LibTorch's reader wants it. What lies outside of the file is read as nothing, which the reader reports.
class MappedBytes : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit MappedBytes(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}

  size_t size() const override { return file_->size(); }

  size_t read(uint64_t position, void* out, size_t bytes, const char* /*what*/) const override {
    if (position > file_->size()) return 0;
    const size_t there = std::min<uint64_t>(bytes, file_->size() - position);
    // The reader reads the directory in one piece and a few short records. One that was compressed would grow a thousandfold in memory
    // while it is read in small pieces.
    constexpr size_t kSmall = 64 << 10, kMostInSmallPieces = 256 << 10;
    if (there <= kSmall && (small_ += there) > kMostInSmallPieces) return 0;
    std::memcpy(out, file_->bytes().data() + position, there);
    return there;
  }

 private:
  const std::shared_ptr<const MappedFile> file_;
  mutable size_t small_ = 0;
};

absl::Status CheckBeginning(const MappedFile& file) {
  constexpr absl::string_view kZip("PK\x03\x04", 4), kBefore16("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);
  if (absl::StartsWith(file.bytes(), kZip)) return absl::OkStatus();
  if (absl::StartsWith(file.bytes(), kBefore16)) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": saved by torch before 1.6: open and save it again"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(), ": not a file of torch.save: it begins with '", Shown(file.bytes().substr(0, 24)), "', wanted a zip archive"));
}

uint16_t Uint16At(absl::string_view bytes, size_t at) {
  uint16_t number;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

}  // namespace

TorchArchive::TorchArchive(std::shared_ptr<const MappedFile> file, std::unique_ptr<PyTorchStreamReader> reader)
    : file_(std::move(file)), reader_(std::move(reader)) {}

TorchArchive::~TorchArchive() = default;

absl::StatusOr<std::unique_ptr<TorchArchive>> TorchArchive::Open(std::shared_ptr<const MappedFile> file) {
  RETURN_IF_ERROR(CheckBeginning(*file));
  std::unique_ptr<PyTorchStreamReader> reader;
  const absl::Status read = comm::TryTorch([&] { reader = std::make_unique<PyTorchStreamReader>(std::make_shared<MappedBytes>(file)); });
  if (!read.ok()) {
    const std::vector<absl::string_view> lines = absl::StrSplit(read.message(), '\n');
    return absl::InvalidArgumentError(absl::StrCat(file->path(), ": not a whole archive of torch.save (truncated?): ", lines[0]));
  }
  std::unique_ptr<TorchArchive> archive(new TorchArchive(std::move(file), std::move(reader)));
  RETURN_IF_ERROR(archive->CheckByteOrder());
  return archive;
}

// torch before 2.1 wrote no such record.
absl::Status TorchArchive::CheckByteOrder() const {
  if (!Has("byteorder")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const absl::string_view order, Bytes("byteorder"));
  if (order == "little") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path(), ": its byte order is '", Shown(order, 20), "', wanted 'little'"));
}

bool TorchArchive::Has(const std::string& name) const {
  bool has = false;
  return comm::TryTorch([&] { has = reader_->hasRecord(name); }).ok() && has;
}

// A record's header: "PK\3\4", version, flags at 6, method at 8, ..., the lengths of name and extra field at 26 and 28; those; the record.
absl::StatusOr<TorchArchive::Record> TorchArchive::Find(const std::string& name) const {
  constexpr size_t kHeader = 30, kFlags = 6, kMethod = 8, kNameLength = 26, kExtraLength = 28;
  const std::string where = absl::StrCat(path(), ": the record ", Shown(name));
  if (!Has(name)) return absl::InvalidArgumentError(absl::StrCat(where, " is missing"));
  uint64_t header_offset = 0, size = 0;
  RETURN_IF_ERROR(comm::TryTorch([&] {
                    header_offset = reader_->getRecordHeaderOffset(name);
                    size = reader_->getRecordSize(name);
                  }),
                  where);
  const absl::string_view bytes = file_->bytes();
  if (header_offset > bytes.size() || bytes.size() - header_offset < kHeader)
    return absl::InvalidArgumentError(absl::StrCat(where, " lies outside of the file"));
  const absl::string_view header = bytes.substr(header_offset, kHeader);
  if (!absl::StartsWith(header, "PK\x03\x04")) return absl::InvalidArgumentError(absl::StrCat(where, " has no header"));
  if (Uint16At(header, kMethod) != 0 || (Uint16At(header, kFlags) & 1) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(where, " is compressed or encrypted, which torch.save does not do: save the file again by torch.save"));
  }
  const uint64_t offset = header_offset + kHeader + Uint16At(header, kNameLength) + Uint16At(header, kExtraLength);
  if (offset > bytes.size() || size > bytes.size() - offset) {
    return absl::InvalidArgumentError(absl::StrCat(where, " has ", size, " bytes from ", offset, ", but the file has ", bytes.size(), " (truncated?)"));
  }
  return Record{offset, size};
}

absl::StatusOr<absl::string_view> TorchArchive::Bytes(const std::string& name) const {
  ASSIGN_OR_RETURN(const Record record, Find(name));
  return file_->bytes().substr(record.offset, record.size);
}

}  // namespace moonring::model
