#ifndef MOONRING_MODEL_GGUF_GGUF_WRITER_H_
#define MOONRING_MODEL_GGUF_GGUF_WRITER_H_

// Writes GGUF files, version 3: what gguf.h reads. Metadata are gathered in order, tensors come
// one at a time, or in pieces, and are quantised 2^22 numbers at a time: the peak is one piece in
// fp32 beside what the caller holds.

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

// Keys and their values, in the order in which they were added. Whole numbers are uint32, as nearly
// all readers want them; throws where one is below 0 or above 2^32 - 1.
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
  std::vector<int64_t> shape;  // as Hugging Face has it, rows last
  const GgufType* type;        // writable, and rows are whole blocks of it
  // Its numbers, one after another, each called once when its turn comes; of any device and dtype.
  std::vector<std::function<at::Tensor()>> pieces;

  uint64_t bytes() const;  // of all, in the file
};

// All that stands before the tensors' data.
std::string GgufHeader(const GgufMetadata& metadata, absl::Span<const GgufTensorToWrite> tensors);

// The file's size.
uint64_t GgufBytes(const GgufMetadata& metadata, absl::Span<const GgufTensorToWrite> tensors);

// The tensors' data, each up to the next multiple of the alignment, piece by piece to `sink`.
// INVALID_ARGUMENT where a tensor has a number that is not finite, or would not be
// in its type (StaysFinite), naming it; what the sink gives. Throws where pieces are not as many
// numbers as the shape says.
absl::Status WriteGgufData(absl::Span<const GgufTensorToWrite> tensors,
                           const std::function<absl::Status(absl::string_view bytes)>& sink);

// Stages `file` with all of it. StagedFiles' statuses where the disk fails, and the above.
absl::Status StageGguf(StagedFiles& files, const std::string& file, const GgufMetadata& metadata,
                       absl::Span<const GgufTensorToWrite> tensors);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_WRITER_H_
