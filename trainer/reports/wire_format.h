#ifndef MOONRING_TRAINER_REPORTS_WIRE_FORMAT_H_
#define MOONRING_TRAINER_REPORTS_WIRE_FORMAT_H_

// Protocol buffers' wire format, as much of it as event files need: fields in the order in which
// they are added. Written by hand because libtorch_cpu exports protobuf's symbols, and a second
// protobuf in one process clashes with them.
// https://protobuf.dev/programming-guides/encoding/

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace moonring::trainer {

class WireMessage {
 public:
  // proto3 leaves out a number that is 0 and a text that is empty. Inside a oneof and in lists they
  // are written: these functions always write.
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

// The integer of a field of a message; 0 where the message has none, nullopt where it is not one.
std::optional<int64_t> FindInteger(absl::string_view message, int field);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_REPORTS_WIRE_FORMAT_H_
