#include "lua/serve/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <zlib.h>

#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"
#include "base/files/output_file.h"
#include "base/status/status_macros.h"

namespace moonring::serve {
namespace {

using nlohmann::json;

constexpr absl::string_view kJournalBeginning = "moonring journal 1\n";
constexpr size_t kHeadBytes = 12;
constexpr uint32_t kMostFields = uint32_t{1} << 24;
constexpr int64_t kSearchedAtOnce = int64_t{1} << 20;  // bytes

using RecordHead = std::array<uint32_t, 3>;  // bytes of the fields, of the body, checksum

uint32_t ChecksumOf(absl::string_view fields, absl::string_view body) {
  uLong sum = crc32_z(0, Z_NULL, 0);
  for (const absl::string_view part : {fields, body}) {
    if (!part.empty())  // crc32_z discards `sum` if it gets a null pointer
      sum = crc32_z(sum, reinterpret_cast<const Bytef*>(part.data()), part.size());
  }
  return static_cast<uint32_t>(sum);
}

std::string EncodeRecord(const json& fields, absl::string_view body) {
  const std::string text = fields.dump(-1, ' ', false, json::error_handler_t::replace);
  const RecordHead head = {static_cast<uint32_t>(text.size()), static_cast<uint32_t>(body.size()),
                           ChecksumOf(text, body)};
  std::string record(kHeadBytes, '\0');
  std::memcpy(record.data(), head.data(), kHeadBytes);
  absl::StrAppend(&record, text, body);
  return record;
}

// Reads exactly `bytes` bytes; returns false if the file ends before.
absl::StatusOr<bool> ReadExactly(int file, int64_t offset, char* to, size_t bytes) {
  size_t have = 0;
  while (have < bytes) {
    const ssize_t got =
        pread(file, to + have, bytes - have, static_cast<off_t>(offset + int64_t(have)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, "read");
    if (got == 0) return false;
    have += static_cast<size_t>(got);
  }
  return true;
}

// The fields and the body of a record whose bytes are all there; null: it is damaged.
std::unique_ptr<std::pair<json, absl::string_view>> DecodeRecord(const RecordHead& head,
                                                                 const std::string& text) {
  const absl::string_view all = text;
  const absl::string_view fields = all.substr(0, head[0]), body = all.substr(head[0]);
  if (ChecksumOf(fields, body) != head[2]) return nullptr;
  json parsed = json::parse(fields.begin(), fields.end(), nullptr, false);
  if (!parsed.is_object()) return nullptr;
  return std::make_unique<std::pair<json, absl::string_view>>(std::move(parsed), body);
}

}  // namespace

absl::Status Journal::Failure(int error) const {
  return absl::ErrnoToStatus(error, absl::StrCat(path_, ": cannot be written"));
}

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(const std::string& path) {
  RETURN_IF_ERROR(base::CheckReading(path));
  RETURN_IF_ERROR(base::CheckWriting(path));
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return absl::ErrnoToStatus(errno, path);
  std::unique_ptr<Journal> journal(new Journal(path, file));
  RETURN_IF_ERROR(journal->Begin());
  return journal;
}

Journal::~Journal() { close(file_); }

int64_t Journal::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

// Checks the beginning of the file, or writes it.
absl::Status Journal::Begin() {
  std::string beginning(kJournalBeginning.size(), '\0');
  ASSIGN_OR_RETURN(const bool has_beginning,
                   ReadExactly(file_, 0, beginning.data(), beginning.size()));
  if (has_beginning && beginning != kJournalBeginning)
    return absl::InvalidArgumentError(absl::StrCat(path_, ": expected the journal of a service"));
  if (!has_beginning) {  // new, or killed while it was created
    if (ftruncate(file_, 0) != 0) return Failure(errno);
    if (pwrite(file_, kJournalBeginning.data(), kJournalBeginning.size(), 0) !=
        static_cast<ssize_t>(kJournalBeginning.size()))
      return Failure(errno);
  }
  bytes_ = static_cast<int64_t>(kJournalBeginning.size());
  return absl::OkStatus();
}

absl::Status Journal::Each(const std::function<void(const Record&)>& read) {
  std::string text;
  bool is_damaged = false;  // and not only incomplete
  for (;;) {
    RecordHead head{};
    ASSIGN_OR_RETURN(bool is_whole,
                     ReadExactly(file_, bytes_, reinterpret_cast<char*>(head.data()), kHeadBytes));
    if (!is_whole) break;
    if (head[0] > kMostFields || head[1] > kMostBody) {
      is_damaged = true;
      break;
    }
    text.resize(size_t{head[0]} + head[1]);
    ASSIGN_OR_RETURN(is_whole,
                     ReadExactly(file_, bytes_ + int64_t(kHeadBytes), text.data(), text.size()));
    if (!is_whole) break;
    const auto record = DecodeRecord(head, text);
    if (!record) {
      is_damaged = true;
      break;
    }
    const Place place{bytes_, static_cast<int64_t>(kHeadBytes + text.size())};
    bytes_ += place.bytes;
    read({std::move(record->first), record->second, place});
  }
  const off_t end = lseek(file_, 0, SEEK_END);
  if (end < 0) return Failure(errno);
  int64_t next = -1;
  if (is_damaged) {
    ASSIGN_OR_RETURN(next, NextWhole(bytes_ + 1, end));
  }
  if (next >= 0) {
    return absl::DataLossError(absl::StrCat(
        path_, ": the record at byte ", bytes_, " is damaged, and whole ones follow at byte ", next,
        ": the disk is faulty, or another program wrote into the file. Restore it from a backup, "
        "or move it away: the service then starts from the saved states, and knows no earlier "
        "request"));
  }
  dropped_ = static_cast<int64_t>(end) - bytes_;
  return ftruncate(file_, static_cast<off_t>(bytes_)) == 0 ? absl::OkStatus() : Failure(errno);
}

// The offset of the first whole record between `offset` and `end`; -1: there is none. A record can
// begin at any byte. Most bytes are rejected without a checksum, because the object that would
// follow does not begin with '{' and end with '}'.
absl::StatusOr<int64_t> Journal::NextWhole(int64_t offset, int64_t end) const {
  std::string part, text;
  for (; offset + int64_t(kHeadBytes) < end; offset += kSearchedAtOnce) {
    part.resize(static_cast<size_t>(
        std::min<int64_t>(end - offset, kSearchedAtOnce + int64_t(kHeadBytes) + 1)));
    RETURN_IF_ERROR(ReadExactly(file_, offset, part.data(), part.size()).status());
    for (size_t at = 0; at + kHeadBytes < part.size() && at < size_t{kSearchedAtOnce}; ++at) {
      if (part[at + kHeadBytes] != '{') continue;
      RecordHead head{};
      std::memcpy(head.data(), part.data() + at, kHeadBytes);
      const int64_t begin = offset + static_cast<int64_t>(at + kHeadBytes);
      char last = 0;
      if (head[0] < 2 || head[0] > kMostFields || begin + head[0] + head[1] > end) continue;
      RETURN_IF_ERROR(ReadExactly(file_, begin + head[0] - 1, &last, 1).status());
      if (last != '}') continue;
      text.resize(size_t{head[0]} + head[1]);
      RETURN_IF_ERROR(ReadExactly(file_, begin, text.data(), text.size()).status());
      if (DecodeRecord(head, text)) return begin - int64_t(kHeadBytes);
    }
  }
  return -1;
}

absl::StatusOr<Journal::Place> Journal::Append(const json& fields, absl::string_view body) {
  if (static_cast<int64_t>(body.size()) > kMostBody) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected at most ", kMostBody, " bytes in a record, got ", body.size()));
  }
  const std::string record = EncodeRecord(fields, body);
  if (record.size() - kHeadBytes - body.size() > kMostFields) {
    return absl::InvalidArgumentError(absl::StrCat("expected at most ", kMostFields,
                                                   " bytes in a record's fields, got ",
                                                   record.size() - kHeadBytes - body.size()));
  }
  const std::lock_guard lock(mutex_);
  size_t done = 0;
  while (done < record.size()) {
    const ssize_t wrote = pwrite(file_, record.data() + done, record.size() - done,
                                 static_cast<off_t>(bytes_ + int64_t(done)));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      const int error = errno;
      if (ftruncate(file_, static_cast<off_t>(bytes_)) != 0) return Failure(errno);
      return Failure(error);
    }
    done += static_cast<size_t>(wrote);
  }
  const Place place{bytes_, static_cast<int64_t>(record.size())};
  bytes_ += place.bytes;
  return place;
}

absl::StatusOr<std::string> Journal::Body(const Place& place) const {
  const std::lock_guard lock(mutex_);
  return BodyLocked(place);
}

absl::StatusOr<std::string> Journal::BodyLocked(const Place& place) const {
  std::string record(static_cast<size_t>(place.bytes), '\0');
  ASSIGN_OR_RETURN(const bool is_whole,
                   ReadExactly(file_, place.offset, record.data(), record.size()));
  RecordHead head{};
  if (is_whole && record.size() >= kHeadBytes) std::memcpy(head.data(), record.data(), kHeadBytes);
  if (!is_whole || kHeadBytes + head[0] + head[1] != record.size())
    return absl::DataLossError(absl::StrCat(path_, ": a record has changed"));
  return record.substr(kHeadBytes + head[0]);
}

absl::StatusOr<std::vector<Journal::Place>> Journal::Rewrite(const std::vector<Kept>& records) {
  const std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const auto output, base::OutputFile::Create(path_));
  RETURN_IF_ERROR(output->Append(kJournalBeginning));
  std::vector<Place> places;
  int64_t offset = static_cast<int64_t>(kJournalBeginning.size());
  for (const Kept& kept : records) {
    std::string record;
    if (kept.place.offset >= 0 && kept.fields.is_null() && !kept.drops_body) {
      record.resize(static_cast<size_t>(kept.place.bytes));
      ASSIGN_OR_RETURN(const bool is_whole,
                       ReadExactly(file_, kept.place.offset, record.data(), record.size()));
      if (!is_whole) return absl::DataLossError(absl::StrCat(path_, ": a record is missing"));
    } else {
      std::string body;
      if (kept.place.offset >= 0 && !kept.drops_body) {
        ASSIGN_OR_RETURN(body, BodyLocked(kept.place));
      }
      record = EncodeRecord(kept.fields, body);
    }
    RETURN_IF_ERROR(output->Append(record));
    places.push_back({offset, static_cast<int64_t>(record.size())});
    offset += places.back().bytes;
  }
  RETURN_IF_ERROR(output->Commit());
  const int file = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return absl::ErrnoToStatus(errno, path_);
  close(std::exchange(file_, file));
  bytes_ = offset;
  return places;
}

}  // namespace moonring::serve
