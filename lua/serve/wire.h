#ifndef MOONRING_LUA_SERVE_WIRE_H_
#define MOONRING_LUA_SERVE_WIRE_H_

// Protobuf's wire format (https://protobuf.dev/programming-guides/encoding): reads the fields of a
// message one after the other, and writes them.
//
// The reader copies nothing: fields of bytes are views of the message. It reads one level; a nested
// message is a field of bytes, which a second reader reads, so the nesting is as deep as the code
// that reads it. Unknown fields are returned like all others; groups, which nothing uses any more,
// are skipped. Errors: INVALID_ARGUMENT with the byte's offset.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::serve {

struct WireField {
  enum class Kind { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  int number = 0;
  Kind kind = Kind::kVarint;
  uint64_t value = 0;       // of a varint, or the bits of a fixed number
  absl::string_view bytes;  // of kBytes

  double AsDouble() const;  // of kFixed64
};

class WireReader {
 public:
  explicit WireReader(absl::string_view message) : rest_(message), size_(message.size()) {}

  // Reads the next field; false at the end.
  absl::StatusOr<bool> Next(WireField& field);

 private:
  absl::StatusOr<uint64_t> Varint();
  absl::StatusOr<uint64_t> Fixed(size_t size);
  absl::Status SkipGroup(int number);
  absl::Status Content(int type, WireField& field);
  absl::Status Fault(absl::string_view what) const;

  absl::string_view rest_;
  size_t size_;
};

// Calls `take` with each field of a message; its error ends the reading.
absl::Status EachField(absl::string_view message,
                       absl::FunctionRef<absl::Status(const WireField&)> take);

// Appends the integers of a repeated field to `values`: a packed field (bytes) has all of them, a
// varint is one. INVALID_ARGUMENT for another kind, or if `values` would have more than `most`.
absl::Status AppendIntegers(const WireField& field, size_t most, std::vector<int64_t>& values);

// Writes a message. As in proto3, integers that are 0 and bytes that are empty are left out.
class WireWriter {
 public:
  void Varint(int number, uint64_t value);
  void Double(int number, double value);                // 0 too: for the values of maps
  void Bytes(int number, absl::string_view bytes);      // a text too
  void Message(int number, absl::string_view message);  // also one without fields
  void PackedIntegers(int number, const std::vector<int64_t>& values);
  std::string Take() { return std::move(bytes_); }

 private:
  void Tag(int number, WireField::Kind kind);

  std::string bytes_;
};

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_WIRE_H_
