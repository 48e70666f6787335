#ifndef MOONRING_MODEL_GGUF_GGUF_WRITER_H_
#define MOONRING_MODEL_GGUF_GGUF_WRITER_H_

// Writes GGUF files, version 3, which gguf.h can read. Tensors are written one at a time, or in
// pieces, and quantised 2^22 numbers at a time: peak memory is one piece in fp32 in addition to the
// caller's tensors.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "model/files/staged_files.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_types.h"

namespace moonring::model {

// The metadata: keys and values, in the order in which they are added. Integers are written as
// uint32, which nearly all readers expect; Int throws if the value is below 0 or above 2^32 - 1.
class GgufMetadata {
 public:
  void Int(absl::string_view key, int64_t value);
  void Number(absl::string_view key, double value);  // as fp32
  void Bool(absl::string_view key, bool value);
  void String(absl::string_view key, absl::string_view value);
  void Ints(absl::string_view key, absl::Span<const int32_t> values);
  void Numbers(absl::string_view key, absl::Span<const float> values);
  void Strings(absl::string_view key, absl::Span<const std::string> values);
  void Add(const GgufMetadata& more);

  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void Begin(absl::string_view key, GgufValueType type);
  void BeginArray(absl::string_view key, GgufValueType type, uint64_t count);

  uint64_t count_ = 0;
  std::string bytes_;
};

struct GgufTensorToWrite {
  std::string name;
  std::vector<int64_t> shape;  // in Hugging Face's order, rows last
  const GgufType* type;        // must be writable, and rows must be whole blocks of it
  // Functions that return the tensor's data, in consecutive pieces. Each function is called once,
  // when its piece is written; the results may be on any device and of any dtype.
  std::vector<std::function<at::Tensor()>> pieces;

  uint64_t bytes() const;  // of the whole tensor, in the file
};

// The bytes of the file before the tensors' data.
std::string GgufHeader(const GgufMetadata& metadata, absl::Span<const GgufTensorToWrite> tensors);

// The size of the file.
uint64_t GgufBytes(const GgufMetadata& metadata, absl::Span<const GgufTensorToWrite> tensors);

// Writes the tensors' data to `sink` piece by piece; each tensor is padded to a multiple of the
// alignment. INVALID_ARGUMENT, naming the tensor, if a number is not finite, or is too large for
// the tensor's type (StaysFinite). Also returns the errors of `sink`. Throws if the pieces together
// do not have as many numbers as the shape.
absl::Status WriteGgufData(absl::Span<const GgufTensorToWrite> tensors,
                           const std::function<absl::Status(absl::string_view bytes)>& sink);

// Writes header and data into a file that appears when `files` is committed. Returns the errors of
// StagedFiles and of WriteGgufData.
absl::Status StageGguf(StagedFiles& files, const std::string& file, const GgufMetadata& metadata,
                       absl::Span<const GgufTensorToWrite> tensors);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_WRITER_H_
