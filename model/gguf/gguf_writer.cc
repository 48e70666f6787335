#include "model/gguf/gguf_writer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ATen/ops/aminmax.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "c10/util/Exception.h"
#include "c10/util/accumulate.h"

namespace moonring::model {
namespace {

using Sink = std::function<absl::Status(absl::string_view)>;

constexpr uint32_t kVersion = 3;
constexpr uint64_t kAlignment = 32;
constexpr int64_t kNumbersAtATime = int64_t{1} << 22;

template <typename T>
void Put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void PutString(std::string& bytes, absl::string_view text) {
  Put<uint64_t>(bytes, text.size());
  bytes.append(text.data(), text.size());
}

uint64_t Aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Returns the number farthest from 0, or a non-finite one if there is any.
float Extreme(const at::Tensor& numbers) {
  const auto [least, most] = at::aminmax(numbers);
  const float low = least.item<float>(), high = most.item<float>();
  return std::fabs(low) > high ? low : high;  // both are NaN if any number is
}

absl::Status CheckNumbers(const GgufTensorToWrite& tensor, const at::Tensor& numbers) {
  const float extreme = Extreme(numbers);
  if (StaysFinite(*tensor.type, extreme)) return absl::OkStatus();
  if (!std::isfinite(extreme)) {
    return absl::InvalidArgumentError(
        absl::StrCat(tensor.name, ": has numbers that are not finite: nothing is written"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      tensor.name, ": has numbers up to ", extreme, ", more than ", tensor.type->name,
      " holds: write it as ", tensor.type->elements == 1 ? "bf16 or f32" : "f16, bf16 or f32"));
}

absl::Status Write(const Sink& sink, const GgufTensorToWrite& tensor, const at::Tensor& numbers) {
  const GgufType& type = *tensor.type;
  const float* in = numbers.const_data_ptr<float>();
  std::string out;
  for (int64_t done = 0; done < numbers.numel(); done += kNumbersAtATime) {
    const int64_t blocks = std::min(kNumbersAtATime, numbers.numel() - done) / type.elements;
    out.resize(static_cast<size_t>(blocks * type.bytes));
    Quantise(type, in + done, blocks, out.data());
    RETURN_IF_ERROR(sink(out));
  }
  return absl::OkStatus();
}

absl::Status Write(const Sink& sink, const GgufTensorToWrite& tensor) {
  int64_t count = 0;
  for (const auto& piece : tensor.pieces) {
    const at::Tensor numbers = piece().to(at::kCPU, at::kFloat).contiguous();
    count += numbers.numel();
    RETURN_IF_ERROR(CheckNumbers(tensor, numbers));
    RETURN_IF_ERROR(Write(sink, tensor, numbers));
  }
  TORCH_CHECK(count == c10::multiply_integers(tensor.shape), tensor.name, ": ", count,
              " numbers for the shape ", at::IntArrayRef(tensor.shape));
  return sink(std::string(Aligned(tensor.bytes()) - tensor.bytes(), '\0'));
}

}  // namespace

void GgufMetadata::Begin(absl::string_view key, GgufValueType type) {
  ++count_;
  PutString(bytes_, key);
  Put(bytes_, static_cast<uint32_t>(type));
}

void GgufMetadata::BeginArray(absl::string_view key, GgufValueType type, uint64_t count) {
  Begin(key, GgufValueType::kArray);
  Put(bytes_, static_cast<uint32_t>(type));
  Put(bytes_, count);
}

void GgufMetadata::Int(absl::string_view key, int64_t value) {
  TORCH_CHECK(value >= 0 && value <= std::numeric_limits<uint32_t>::max(), std::string(key), ": ",
              value, " is not a uint32");
  Begin(key, GgufValueType::kUint32);
  Put(bytes_, static_cast<uint32_t>(value));
}

void GgufMetadata::Number(absl::string_view key, double value) {
  Begin(key, GgufValueType::kFloat32);
  Put(bytes_, static_cast<float>(value));
}

void GgufMetadata::Bool(absl::string_view key, bool value) {
  Begin(key, GgufValueType::kBool);
  Put<uint8_t>(bytes_, value ? 1 : 0);
}

void GgufMetadata::String(absl::string_view key, absl::string_view value) {
  Begin(key, GgufValueType::kString);
  PutString(bytes_, value);
}

void GgufMetadata::Ints(absl::string_view key, absl::Span<const int32_t> values) {
  BeginArray(key, GgufValueType::kInt32, values.size());
  for (const int32_t value : values) Put(bytes_, value);
}

void GgufMetadata::Numbers(absl::string_view key, absl::Span<const float> values) {
  BeginArray(key, GgufValueType::kFloat32, values.size());
  for (const float value : values) Put(bytes_, value);
}

void GgufMetadata::Strings(absl::string_view key, absl::Span<const std::string> values) {
  BeginArray(key, GgufValueType::kString, values.size());
  for (const std::string& value : values) PutString(bytes_, value);
}

void GgufMetadata::Add(const GgufMetadata& more) {
  count_ += more.count_;
  bytes_ += more.bytes_;
}

uint64_t GgufTensorToWrite::bytes() const {
  return static_cast<uint64_t>(c10::multiply_integers(shape) / type->elements * type->bytes);
}

std::string GgufHeader(const GgufMetadata& metadata, absl::Span<const GgufTensorToWrite> tensors) {
  std::string header = "GGUF";
  Put(header, kVersion);
  Put<uint64_t>(header, tensors.size());
  Put<uint64_t>(header, metadata.count());
  header += metadata.bytes();
  uint64_t offset = 0;
  for (const GgufTensorToWrite& tensor : tensors) {
    TORCH_CHECK(!tensor.shape.empty() && tensor.shape.back() % tensor.type->elements == 0,
                tensor.name, ": rows of ", at::IntArrayRef(tensor.shape),
                " are not whole blocks of ", tensor.type->name);
    PutString(header, tensor.name);
    Put(header, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t dim = tensor.shape.size(); dim-- > 0;)
      Put(header, static_cast<uint64_t>(tensor.shape[dim]));
    Put(header, tensor.type->id);
    Put(header, offset);
    offset += Aligned(tensor.bytes());
  }
  header.resize(Aligned(header.size()), '\0');
  return header;
}

uint64_t GgufBytes(const GgufMetadata& metadata, absl::Span<const GgufTensorToWrite> tensors) {
  uint64_t bytes = GgufHeader(metadata, tensors).size();
  for (const GgufTensorToWrite& tensor : tensors) bytes += Aligned(tensor.bytes());
  return bytes;
}

absl::Status WriteGgufData(absl::Span<const GgufTensorToWrite> tensors, const Sink& sink) {
  for (const GgufTensorToWrite& tensor : tensors) RETURN_IF_ERROR(Write(sink, tensor));
  return absl::OkStatus();
}

absl::Status StageGguf(StagedFiles& files, const std::string& file, const GgufMetadata& metadata,
                       absl::Span<const GgufTensorToWrite> tensors) {
  RETURN_IF_ERROR(files.Begin(file));
  RETURN_IF_ERROR(files.Append(GgufHeader(metadata, tensors)));
  RETURN_IF_ERROR(
      WriteGgufData(tensors, [&](absl::string_view bytes) { return files.Append(bytes); }));
  return files.End();
}

}  // namespace moonring::model
