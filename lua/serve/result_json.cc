#include "lua/serve/result_json.h"

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/status/status_macros.h"
#include "lua/serve/loss_tensors.h"
#include "lua/serve/wire.h"

namespace moonring::serve {
namespace {

constexpr size_t kMostSizes = 16;
constexpr float kLowest = -99999.0f;  // in cells without a token

template <typename T>
std::vector<T> Unpacked(absl::string_view bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(T));
  return numbers;
}

// JSON has no NaN and no infinity.
Json NumberOrNull(double number) { return std::isfinite(number) ? Json(number) : Json(); }

Json FloatList(absl::string_view bytes) {
  Json list = Json::array();
  for (const float number : Unpacked<float>(bytes)) list.push_back(NumberOrNull(number));
  return list;
}

struct WireTensor {
  absl::string_view data, offsets;
  int64_t dtype = 0;
  std::vector<int64_t> shape;  // or the trailing shape
};

// Tensor and BatchedTensor have the same numbers for dtype and shape; `offsets` is the latter's.
absl::Status ReadWireTensor(absl::string_view message, WireTensor& tensor) {
  return EachField(message, [&](const WireField& field) {
    if (field.number == 1) tensor.data = field.bytes;
    if (field.number == 2) tensor.offsets = field.bytes;
    if (field.number == 3) tensor.dtype = static_cast<int64_t>(field.value);
    if (field.number == 4) return AppendIntegers(field, kMostSizes, tensor.shape);
    return absl::OkStatus();
  });
}

absl::StatusOr<Json> TensorJson(absl::string_view data, int64_t dtype_number,
                                const std::vector<int64_t>& shape) {
  ASSIGN_OR_RETURN(const WireDtype dtype, WireDtypeOf(dtype_number));
  ASSIGN_OR_RETURN(const at::Tensor numbers, NumbersOf(data, dtype));
  const bool is_whole = numbers.scalar_type() == at::kLong;
  Json list = Json::array();
  for (int64_t i = 0; i < numbers.numel(); ++i) {
    list.push_back(is_whole ? Json(numbers.data_ptr<int64_t>()[i])
                            : NumberOrNull(numbers.data_ptr<float>()[i]));
  }
  return Json{
      {"data", std::move(list)}, {"dtype", is_whole ? "int64" : "float32"}, {"shape", shape}};
}

// Adds a field of a record to its datums, which begin at `first`.
absl::Status AddField(absl::string_view entry, size_t first, Json& datums) {
  std::string name;
  WireTensor tensor;
  RETURN_IF_ERROR(EachField(entry, [&](const WireField& field) {
    if (field.number == 1) name = std::string(field.bytes);
    return field.number == 2 ? ReadWireTensor(field.bytes, tensor) : absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(const WireDtype dtype, WireDtypeOf(tensor.dtype));
  int64_t row = SizeOf(dtype);
  for (const int64_t size : tensor.shape) row *= size;
  const std::vector<int64_t> offsets = Unpacked<int64_t>(tensor.offsets);
  for (size_t d = 0; d + 1 < offsets.size(); ++d) {
    const auto begin = static_cast<size_t>(offsets[d]);
    const int64_t bytes = offsets[d + 1] - offsets[d];
    if (bytes < 0 || begin > tensor.data.size())
      return absl::InvalidArgumentError("offsets outside of the data");
    std::vector<int64_t> shape = tensor.shape;
    shape.insert(shape.begin(), row > 0 ? bytes / row : 0);
    while (datums.size() <= first + d) datums.push_back(Json::object());
    ASSIGN_OR_RETURN(
        datums[first + d][name],
        TensorJson(tensor.data.substr(begin, static_cast<size_t>(bytes)), tensor.dtype, shape));
  }
  return absl::OkStatus();
}

// Rows of [id, log-prob]; null for a position without any.
absl::StatusOr<Json> TopJson(absl::string_view message) {
  std::vector<int32_t> ids;
  std::vector<float> scores;
  uint64_t k = 0;
  RETURN_IF_ERROR(EachField(message, [&](const WireField& field) {
    if (field.number == 1) ids = Unpacked<int32_t>(field.bytes);
    if (field.number == 2) scores = Unpacked<float>(field.bytes);
    if (field.number == 3) k = field.value;
    return absl::OkStatus();
  }));
  Json rows = Json::array();
  for (size_t i = 0; k > 0 && i + k <= ids.size() && i + k <= scores.size(); i += k) {
    Json row = Json::array();
    for (size_t j = i; j < i + k; ++j) {
      if (scores[j] != kLowest) row.push_back({ids[j], NumberOrNull(scores[j])});
    }
    rows.push_back(row.empty() ? Json() : std::move(row));
  }
  return rows;
}

absl::StatusOr<Json> SequenceJson(absl::string_view message) {
  Json sequence = {{"tokens", Json::array()},
                   {"logprobs", nullptr},
                   {"stop_reason", "stop"},
                   {"topk_logprobs", nullptr}};
  RETURN_IF_ERROR(EachField(message, [&](const WireField& field) {
    if (field.number == 1 && field.value == 1) sequence["stop_reason"] = "length";
    if (field.number == 2) sequence["tokens"] = Unpacked<int32_t>(field.bytes);
    if (field.number == 3) sequence["logprobs"] = FloatList(field.bytes);
    if (field.number == 4) {
      ASSIGN_OR_RETURN(sequence["topk_logprobs"], TopJson(field.bytes));
    }
    return absl::OkStatus();
  }));
  return sequence;
}

absl::StatusOr<Json> OneTensorJson(absl::string_view message) {
  WireTensor tensor;
  RETURN_IF_ERROR(ReadWireTensor(message, tensor));
  return TensorJson(tensor.data, tensor.dtype, tensor.shape);
}

}  // namespace

absl::StatusOr<Json> LossResultJson(absl::string_view message) {
  Json datums = Json::array(), metrics = Json::object();
  RETURN_IF_ERROR(EachField(message, [&](const WireField& field) {
    if (field.number == 2) {
      const size_t first = datums.size();
      return EachField(field.bytes, [&](const WireField& inner) {
        return inner.number == 2 ? AddField(inner.bytes, first, datums) : absl::OkStatus();
      });
    }
    if (field.number != 3) return absl::OkStatus();
    std::string name;
    return EachField(field.bytes, [&](const WireField& inner) {
      if (inner.number == 1) name = std::string(inner.bytes);
      if (inner.number == 2) metrics[name] = NumberOrNull(inner.AsDouble());
      return absl::OkStatus();
    });
  }));
  return Json{{"loss_fn_output_type", "ArrayRecord"},
              {"loss_fn_outputs", std::move(datums)},
              {"metrics", std::move(metrics)}};
}

absl::StatusOr<Json> SampleResultJson(absl::string_view message) {
  Json result = {{"type", "sample"},
                 {"sequences", Json::array()},
                 {"prompt_logprobs", nullptr},
                 {"topk_prompt_logprobs", nullptr}};
  RETURN_IF_ERROR(EachField(message, [&](const WireField& field) {
    if (field.number == 1) {
      ASSIGN_OR_RETURN(Json sequence, SequenceJson(field.bytes));
      result["sequences"].push_back(std::move(sequence));
    }
    if (field.number == 2) result["prompt_logprobs"] = FloatList(field.bytes);
    if (field.number == 3) {
      ASSIGN_OR_RETURN(result["topk_prompt_logprobs"], TopJson(field.bytes));
    }
    if (field.number == 4) result["prompt_cache_hit_tokens"] = field.value;
    if (field.number == 5) {
      ASSIGN_OR_RETURN(result["target_prompt_logprobs"], OneTensorJson(field.bytes));
    }
    return absl::OkStatus();
  }));
  return result;
}

}  // namespace moonring::serve
