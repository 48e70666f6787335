#ifndef MOONRING_TRAINER_REPORTS_WIRE_FORMAT_H_
#define MOONRING_TRAINER_REPORTS_WIRE_FORMAT_H_

// Encodes the protobuf wire format, as far as event files need it; fields are written in the order
// in which they are added. Implemented here because libtorch_cpu exports protobuf's symbols, and a
// second protobuf in one process would clash with them.
// https://protobuf.dev/programming-guides/encoding/

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace moonring::trainer {

class WireMessage {
 public:
  // proto3 omits zero numbers and empty strings, except inside a oneof and in lists. These
  // functions always write the field.
  WireMessage& Integer(int field, int64_t value);
  WireMessage& Double(int field, double value);
  WireMessage& Float(int field, float value);
  WireMessage& Bytes(int field, absl::string_view value);
  WireMessage& Message(int field, const WireMessage& value) { return Bytes(field, value.bytes_); }
  WireMessage& Doubles(int field, const std::vector<double>& values);  // packed

  const std::string& bytes() const { return bytes_; }

 private:
  void Key(int field, int wire_type);
  std::string bytes_;
};

// The value of an integer field of a message; 0 if the field is missing, nullopt if `message` is
// malformed.
std::optional<int64_t> FindInteger(absl::string_view message, int field);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_REPORTS_WIRE_FORMAT_H_
