#include "model/files/torch_archive.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status/status_macros.h"
#include "model/files/json_text.h"

namespace moonring::model {
namespace {

static_assert(std::endian::native == std::endian::little);

// The number at offset `at` of `bytes`; nullopt if it would extend past the end.
template <typename T>
std::optional<T> NumberAt(absl::string_view bytes, uint64_t at) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) return std::nullopt;
  T number;
  std::memcpy(&number, bytes.data() + at, sizeof(T));
  return number;
}

// Locates the archive's directory, from the records at the file's end:
//
//   [ "PK\6\6" ..., at 32 the number of entries, at 40 the directory's size, at 48 its offset, 8
//       bytes each ]  anywhere
//   [ "PK\6\7" disk, at 8 the offset of the former, 8 bytes ...: 20 bytes ]
//       just before
//   "PK\5\6" ..., at 12 the directory's size, at 16 its offset, 4 bytes each; at 20 the comment's
//       length, 2 bytes; the comment
//
// The records in brackets exist in archives of 4 GB and more, and in all that torch writes.
absl::StatusOr<absl::string_view> FindDirectory(const MappedFile& file) {
  constexpr uint64_t kEnd = 22, kLocator = 20, kLongestComment = 65535;
  const absl::string_view bytes = file.bytes();
  const auto lying = [&](auto... pieces) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": not a whole archive of torch.save (truncated?): ", pieces...));
  };
  const uint64_t earliest = bytes.size() - std::min<uint64_t>(bytes.size(), kEnd + kLongestComment);
  const size_t found = bytes.substr(earliest).rfind("PK\x05\x06");
  if (found == absl::string_view::npos || bytes.size() - earliest - found < kEnd)
    return lying("it has no directory at its end");
  const uint64_t end = earliest + found;
  uint64_t size = *NumberAt<uint32_t>(bytes, end + 12),
           offset = *NumberAt<uint32_t>(bytes, end + 16);
  if (end >= kLocator && absl::StartsWith(bytes.substr(end - kLocator), "PK\x06\x07")) {
    const uint64_t large = *NumberAt<uint64_t>(bytes, end - kLocator + 8);
    const auto large_size = NumberAt<uint64_t>(bytes, large + 40),
               large_offset = NumberAt<uint64_t>(bytes, large + 48);
    if (large > end || !large_size.has_value() || !large_offset.has_value() ||
        !absl::StartsWith(bytes.substr(large), "PK\x06\x06")) {
      return lying("the description of its directory should be at byte ", large, ", but is not");
    }
    size = *large_size;
    offset = *large_offset;
  }
  if (offset > end || size > end - offset)
    return lying("its directory has ", size, " bytes from ", offset, " on, and ends at ", end,
                 " at the latest");
  return bytes.substr(offset, size);
}

// Zip64: `numbers` are 4-byte numbers of a header. Each one that is 0xFFFFFFFF is replaced by an
// 8-byte number from the header's extra field 1, which has one for each such number, in this order.
bool Widen(absl::string_view extra, std::initializer_list<uint64_t*> numbers) {
  constexpr uint64_t kWide = 0xFFFFFFFF;
  if (std::none_of(numbers.begin(), numbers.end(),
                   [](const uint64_t* number) { return *number == kWide; }))
    return true;
  while (true) {
    const auto id = NumberAt<uint16_t>(extra, 0), length = NumberAt<uint16_t>(extra, 2);
    if (!id.has_value() || !length.has_value()) return false;
    absl::string_view body = extra.substr(4, *length);
    if (*id != 1) {
      extra.remove_prefix(std::min<size_t>(extra.size(), 4 + size_t{*length}));
      continue;
    }
    for (uint64_t* number : numbers) {
      if (*number != kWide) continue;
      const auto wide = NumberAt<uint64_t>(body, 0);
      if (!wide.has_value()) return false;
      *number = *wide;
      body.remove_prefix(sizeof(*wide));
    }
    return true;
  }
}

absl::Status CheckBeginning(const MappedFile& file) {
  constexpr absl::string_view kZip("PK\x03\x04", 4),
      kBefore16("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);
  if (absl::StartsWith(file.bytes(), kZip)) return absl::OkStatus();
  if (absl::StartsWith(file.bytes(), kBefore16)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": saved by torch before 1.6: open and save it again"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(), ": not a file of torch.save: it begins with '",
                   Shown(file.bytes().substr(0, 24)), "', expected a zip archive"));
}

uint16_t Uint16At(absl::string_view bytes, size_t at) { return *NumberAt<uint16_t>(bytes, at); }

}  // namespace

absl::StatusOr<std::unique_ptr<TorchArchive>> TorchArchive::Open(
    std::shared_ptr<const MappedFile> file) {
  RETURN_IF_ERROR(CheckBeginning(*file));
  std::unique_ptr<TorchArchive> archive(new TorchArchive(std::move(file)));
  RETURN_IF_ERROR(archive->ReadDirectory());
  RETURN_IF_ERROR(archive->CheckByteOrder());
  return archive;
}

// Reads the directory. The format of an entry is "PK\1\2", ..., compressed and uncompressed size at
// 20 and 24, the lengths of name, extra field and comment at 28, 30 and 32, the offset of the
// record's header at 42; then name, extra field and comment. An entry's name is the archive's name,
// which is the same in all entries, a slash, and the record's name.
absl::Status TorchArchive::ReadDirectory() {
  constexpr size_t kEntry = 46;
  ASSIGN_OR_RETURN(absl::string_view rest, FindDirectory(*file_));
  absl::string_view archive;
  while (!rest.empty()) {
    const auto lying = [&](auto... pieces) {
      return absl::InvalidArgumentError(
          absl::StrCat(path(), ": not a whole archive of torch.save (truncated?): entry ",
                       entries_.size(), pieces...));
    };
    if (rest.size() < kEntry || !absl::StartsWith(rest, "PK\x01\x02"))
      return lying(" of its directory is none");
    const size_t name_length = Uint16At(rest, 28), extra_length = Uint16At(rest, 30),
                 comment_length = Uint16At(rest, 32);
    if (rest.size() - kEntry < name_length + extra_length + comment_length)
      return lying(" goes beyond its directory");
    absl::string_view name = rest.substr(kEntry, name_length);
    Entry entry{.header = *NumberAt<uint32_t>(rest, 42), .size = *NumberAt<uint32_t>(rest, 24)};
    uint64_t compressed = *NumberAt<uint32_t>(rest, 20);
    if (!Widen(rest.substr(kEntry + name_length, extra_length),
               {&entry.size, &compressed, &entry.header}))
      return lying(" lacks its sizes");
    rest.remove_prefix(kEntry + name_length + extra_length + comment_length);
    if (entries_.empty()) archive = name.substr(0, name.find('/'));
    if (!absl::ConsumePrefix(&name, archive) || !absl::ConsumePrefix(&name, "/"))
      return lying(" is not a record of '", Shown(archive, 40), "'");
    if (!entries_.emplace(std::string(name), entry).second)
      return lying(", ", Shown(name, 40), ", is there twice");
  }
  if (Has("version") || Has(".data/version")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path(), ": not a whole archive of torch.save (truncated?): the record version is missing"));
}

// Checks the record "byteorder", which torch before 2.1 did not write.
absl::Status TorchArchive::CheckByteOrder() const {
  if (!Has("byteorder")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const absl::string_view order, Bytes("byteorder"));
  if (order == "little") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path(), ": its byte order is '", Shown(order, 20), "', expected 'little'"));
}

// The format of a record's header is "PK\3\4", version, flags at 6, compression method at 8, ...,
// the lengths of name and extra field at 26 and 28; then name and extra field; then the record's
// data.
absl::StatusOr<TorchArchive::Record> TorchArchive::Find(const std::string& name) const {
  constexpr size_t kHeader = 30, kFlags = 6, kMethod = 8, kNameLength = 26, kExtraLength = 28;
  const std::string where = absl::StrCat(path(), ": the record ", Shown(name));
  const auto found = entries_.find(name);
  if (found == entries_.end())
    return absl::InvalidArgumentError(absl::StrCat(where, " is missing"));
  const auto [header_offset, size] = found->second;
  const absl::string_view bytes = file_->bytes();
  if (header_offset > bytes.size() || bytes.size() - header_offset < kHeader)
    return absl::InvalidArgumentError(absl::StrCat(where, " is outside the file"));
  const absl::string_view header = bytes.substr(header_offset, kHeader);
  if (!absl::StartsWith(header, "PK\x03\x04"))
    return absl::InvalidArgumentError(absl::StrCat(where, " has no header"));
  if (Uint16At(header, kMethod) != 0 || (Uint16At(header, kFlags) & 1) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(where,
                     " is compressed or encrypted, which torch.save does not do: save the file "
                     "again by torch.save"));
  }
  const uint64_t offset =
      header_offset + kHeader + Uint16At(header, kNameLength) + Uint16At(header, kExtraLength);
  if (offset > bytes.size() || size > bytes.size() - offset) {
    return absl::InvalidArgumentError(absl::StrCat(where, " has ", size, " bytes from ", offset,
                                                   ", but the file has ", bytes.size(),
                                                   " (truncated?)"));
  }
  return Record{offset, size};
}

absl::StatusOr<absl::string_view> TorchArchive::Bytes(const std::string& name) const {
  ASSIGN_OR_RETURN(const Record record, Find(name));
  return file_->bytes().substr(record.offset, record.size);
}

}  // namespace moonring::model
