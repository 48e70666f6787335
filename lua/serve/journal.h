#ifndef MOONRING_LUA_SERVE_JOURNAL_H_
#define MOONRING_LUA_SERVE_JOURNAL_H_

// The journal of a service: a file of records to which each change is appended before a client is
// answered. After a restart, also by kill -9, the service reads it and continues.
//
// A record is a JSON object and bytes:
//
//   u32 size of the object   u32 size of the bytes   u32 CRC-32 of both   the object   the bytes
//
// (little-endian; sizes in bytes). An append is one write, so that a process that is killed leaves
// at most one incomplete record at the end, which the next start drops. Appends are not flushed to
// the disk: they survive the process, not the machine; Rewrite flushes. A damaged record that whole
// ones follow is an error: requests that were answered would be lost. (A damaged size that reaches
// beyond the end of the file cannot be told from an incomplete record.)
//
// Thread-safe. Errors are those of the file system, with the path; after a failed append the
// file is cut back to the last whole record.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::serve {

class Journal {
 public:
  // Where a record is in the file.
  struct Place {
    int64_t offset = -1, bytes = 0;
  };
  // A record as Each reads it. `body` is valid until the function that received it returns.
  struct Record {
    nlohmann::json fields;
    absl::string_view body;
    Place place;
  };

  static constexpr int64_t kMostBody = int64_t{1} << 30;  // bytes of one record

  // Opens or creates the file. INVALID_ARGUMENT if the file is not a journal.
  static absl::StatusOr<std::unique_ptr<Journal>> Open(const std::string& path);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Calls `read` for each record in order. Call it before the first append: it drops an incomplete
  // or damaged end. DATA_LOSS if a record before the last one is damaged; the file stays as it is.
  absl::Status Each(const std::function<void(const Record&)>& read);
  absl::StatusOr<Place> Append(const nlohmann::json& fields, absl::string_view body = {});
  // Reads the body of a record. DATA_LOSS if the file has changed there.
  absl::StatusOr<std::string> Body(const Place& place) const;

  // A record to keep: one of this file, whose fields may be replaced, or a new one without a body.
  struct Kept {
    Place place;              // offset -1: a new record of `fields`
    nlohmann::json fields;    // null: those that the record has
    bool drops_body = false;  // then `fields` must be given
  };
  // Replaces the file atomically by these records, in this order. Returns their new places.
  absl::StatusOr<std::vector<Place>> Rewrite(const std::vector<Kept>& records);

  int64_t bytes() const;
  // Bytes of an incomplete or damaged end that Each dropped.
  int64_t dropped() const { return dropped_; }

 private:
  Journal(std::string path, int file) : path_(std::move(path)), file_(file) {}
  absl::Status Begin();
  absl::StatusOr<int64_t> NextWhole(int64_t offset, int64_t end) const;
  absl::StatusOr<std::string> BodyLocked(const Place& place) const;
  absl::Status Failure(int error) const;

  std::string path_;
  mutable std::mutex mutex_;  // guards the following members
  int file_;
  int64_t bytes_ = 0, dropped_ = 0;
};

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_JOURNAL_H_
