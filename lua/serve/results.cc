#include "lua/serve/results.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"
#include "lua/serve/loss_tensors.h"
#include "lua/serve/name_text.h"
#include "lua/serve/wire.h"

namespace moonring::serve {
namespace {

constexpr absl::string_view kRecord = "ArrayRecord";

bool IsWhole(const at::Tensor& tensor) {
  return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
}

WireDtype DtypeOf(const at::Tensor& tensor) {
  return IsWhole(tensor) ? WireDtype::kInt64 : WireDtype::kFloat32;
}

// The tensor's numbers, float32 or int64, in memory one after the other.
at::Tensor Numbers(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU, IsWhole(tensor) ? at::kLong : at::kFloat).contiguous();
}

template <typename T>
absl::string_view BytesOf(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

absl::string_view BytesOf(const at::Tensor& numbers) {
  return {static_cast<const char*>(numbers.data_ptr()), numbers.nbytes()};
}

std::vector<int64_t> TrailingShape(const at::Tensor& tensor) {
  return tensor.sizes().slice(1).vec();
}

// Whether two datums can be in one record.
bool IsAlike(const LossOutput& a, const LossOutput& b) {
  return std::all_of(a.begin(), a.end(), [&](const auto& field) {
    const at::Tensor& other = b.at(field.first);
    return DtypeOf(field.second) == DtypeOf(other) &&
           TrailingShape(field.second) == TrailingShape(other);
  });
}

std::string WriteEntry(absl::string_view key, absl::string_view message) {
  WireWriter entry;
  entry.Message(1, key);  // an entry of a map has both fields, also empty ones
  entry.Message(2, message);
  return entry.Take();
}

// BatchedTensor: one field of consecutive datums, concatenated, with byte offsets.
std::string WriteBatched(const std::string& name, const LossOutput* first, const LossOutput* end) {
  std::string data;
  std::vector<int64_t> offsets = {0};
  for (const LossOutput* datum = first; datum != end; ++datum) {
    const at::Tensor numbers = Numbers(datum->at(name));
    const absl::string_view bytes = BytesOf(numbers);
    data.append(bytes.data(), bytes.size());
    offsets.push_back(static_cast<int64_t>(data.size()));
  }
  const at::Tensor& tensor = first->at(name);
  WireWriter batched;
  batched.Bytes(1, data);
  batched.Bytes(2, BytesOf(offsets));
  batched.Varint(3, static_cast<uint64_t>(DtypeOf(tensor)));
  batched.PackedIntegers(4, TrailingShape(tensor));
  return batched.Take();
}

std::string WriteRecord(const LossOutput* first, const LossOutput* end) {
  WireWriter record;
  record.Bytes(1, kRecord);
  for (const auto& [name, tensor] : *first)
    record.Message(2, WriteEntry(name, WriteBatched(name, first, end)));
  record.Varint(3, static_cast<uint64_t>(end - first));
  return record.Take();
}

absl::Status CheckOutputs(const std::vector<LossOutput>& outputs) {
  const auto names = [](const LossOutput& output) {
    return absl::StrJoin(output, ", ", [](std::string* text, const auto& field) {
      absl::StrAppend(text, field.first);
    });
  };
  for (size_t d = 0; d < outputs.size(); ++d) {
    if (names(outputs[d]) != names(outputs[0])) {
      return absl::InvalidArgumentError(absl::StrCat("outputs: datum ", d, " has the fields ",
                                                     names(outputs[d]), "; datum 0 has ",
                                                     names(outputs[0])));
    }
    for (const auto& [name, tensor] : outputs[d]) {
      if (tensor.dim() >= 1 && !at::isComplexType(tensor.scalar_type())) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("outputs: datum ", d, ": ", name, ": expected real numbers of [N, ..]"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMetric(const std::string& name, double value) {
  static constexpr std::array<absl::string_view, 7> kReductions = {"mean",  "sum",   "min",   "max",
                                                                   "slack", "hash2", "unique"};
  const size_t colon = name.find(':');
  const absl::string_view reduction =
      colon == std::string::npos ? "" : absl::string_view(name).substr(colon + 1);
  if (colon == 0 ||
      std::find(kReductions.begin(), kReductions.end(), reduction) == kReductions.end() ||
      !IsUtf8(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("metrics: '", name, "': expected NAME:", absl::StrJoin(kReductions, "|")));
  }
  if (!std::isfinite(value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("metrics: ", name, ": expected a finite number, got ", value));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> WriteTop(const TopTokens& top) {
  const auto cells = static_cast<size_t>(top.k * top.length);
  if (top.ids.size() != cells || top.log_probs.size() != cells) {
    return absl::InvalidArgumentError(absl::StrCat("top tokens: ", top.ids.size(), " ids and ",
                                                   top.log_probs.size(), " log-probs; expected ",
                                                   top.length, " rows of ", top.k));
  }
  WireWriter message;
  message.Bytes(1, BytesOf(top.ids));
  message.Bytes(2, BytesOf(top.log_probs));
  message.Varint(3, static_cast<uint64_t>(top.k));
  message.Varint(4, static_cast<uint64_t>(top.length));
  return message.Take();
}

absl::StatusOr<std::string> WriteSequence(const SampledSequence& sequence) {
  if (!sequence.log_probs.empty() && sequence.log_probs.size() != sequence.tokens.size()) {
    return absl::InvalidArgumentError(absl::StrCat(sequence.tokens.size(), " tokens, but ",
                                                   sequence.log_probs.size(), " log-probs"));
  }
  WireWriter message;
  message.Varint(1, sequence.ended_by_length ? 1 : 0);
  message.Bytes(2, BytesOf(sequence.tokens));
  message.Bytes(3, BytesOf(sequence.log_probs));
  if (sequence.top.has_value()) {
    ASSIGN_OR_RETURN(const std::string top, WriteTop(*sequence.top));
    message.Message(4, top);
  }
  return message.Take();
}

std::string WriteTensor(const at::Tensor& tensor) {
  const at::Tensor numbers = Numbers(tensor);
  WireWriter message;
  message.Bytes(1, BytesOf(numbers));
  message.Varint(3, static_cast<uint64_t>(DtypeOf(tensor)));
  message.PackedIntegers(4, tensor.sizes().vec());
  return message.Take();
}

}  // namespace

absl::StatusOr<std::string> WriteLossResult(const Metrics& metrics,
                                            const std::vector<LossOutput>& outputs) {
  RETURN_IF_ERROR(CheckOutputs(outputs));
  WireWriter message;
  message.Bytes(1, kRecord);
  // Consecutive datums with the same dtypes and trailing shapes share a record.
  for (size_t first = 0; first < outputs.size();) {
    size_t end = first + 1;
    while (end < outputs.size() && IsAlike(outputs[first], outputs[end])) ++end;
    message.Message(2, WriteRecord(&outputs[first], outputs.data() + end));
    first = end;
  }
  for (const auto& [name, value] : metrics) {
    RETURN_IF_ERROR(CheckMetric(name, value));
    WireWriter entry;
    entry.Message(1, name);
    entry.Double(2, value);
    message.Message(3, entry.Take());
  }
  return message.Take();
}

absl::StatusOr<std::string> WriteSampleResult(const SampleResult& result) {
  WireWriter message;
  for (size_t i = 0; i < result.sequences.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string sequence, WriteSequence(result.sequences[i]), "sequence ",
                     i);
    message.Message(1, sequence);
  }
  message.Bytes(2, BytesOf(result.prompt_log_probs));
  if (result.top_prompt.has_value()) {
    ASSIGN_OR_RETURN(const std::string top, WriteTop(*result.top_prompt), "topk_prompt_logprobs");
    message.Message(3, top);
  }
  message.Varint(4, static_cast<uint64_t>(result.prompt_cache_hit_tokens));
  if (result.target_prompt_log_probs.defined())
    message.Message(5, WriteTensor(result.target_prompt_log_probs));
  if (result.alt_tokens.defined() && result.alt_log_probs.defined())
    message.Message(6,
                    WriteEntry(WriteTensor(result.alt_tokens), WriteTensor(result.alt_log_probs)));
  return message.Take();
}

}  // namespace moonring::serve
