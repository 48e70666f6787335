#include "lua/serve/loss_json.h"

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "lua/serve/body_json.h"
#include "lua/serve/loss_checks.h"
#include "lua/serve/loss_tensors.h"

namespace moonring::serve {
namespace {

// A list of integers as an int64 tensor.
absl::StatusOr<at::Tensor> Integers(const Json& object, const char* key) {
  ASSIGN_OR_RETURN(const Json* list, ListField(object, key));
  const at::Tensor values = at::empty({static_cast<int64_t>(list->size())}, at::kLong);
  int64_t* into = values.data_ptr<int64_t>();
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& number = (*list)[i];
    const bool fits = number.is_number_unsigned()
                          ? number.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()}
                          : number.is_number_integer();
    if (!fits) return Unexpected(number, "an integer", absl::StrCat(key, "[", i, "]"));
    into[i] = number.get<int64_t>();
  }
  return values;
}

absl::StatusOr<at::Tensor> Floats(const Json& object, const char* key) {
  ASSIGN_OR_RETURN(const Json* list, ListField(object, key));
  const at::Tensor values = at::empty({static_cast<int64_t>(list->size())}, at::kFloat);
  float* into = values.data_ptr<float>();
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& number = (*list)[i];
    if (!number.is_number()) return Unexpected(number, "a number", absl::StrCat(key, "[", i, "]"));
    into[i] = static_cast<float>(number.get<double>());
  }
  return values;
}

absl::StatusOr<std::vector<int64_t>> Shape(const Json& tensor) {
  if (Find(tensor, "shape") == nullptr) return std::vector<int64_t>();
  ASSIGN_OR_RETURN(const at::Tensor sizes, Integers(tensor, "shape"));
  if (sizes.numel() > static_cast<int64_t>(kMostDims)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape: expected at most ", kMostDims, " numbers, got ", sizes.numel()));
  }
  const int64_t* size = sizes.data_ptr<int64_t>();
  return std::vector<int64_t>(size, size + sizes.numel());
}

absl::StatusOr<at::Tensor> TensorOfJson(const Json& tensor, int64_t& filled) {
  ASSIGN_OR_RETURN(const std::string name, TextField(tensor, "dtype"));
  if (name != "float32" && name != "int64")
    return Unexpected(name, "\"float32\" or \"int64\"", "dtype");
  const WireDtype dtype = name == "int64" ? WireDtype::kInt64 : WireDtype::kFloat32;
  ASSIGN_OR_RETURN(at::Tensor values,
                   dtype == WireDtype::kInt64 ? Integers(tensor, "data") : Floats(tensor, "data"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> shape, Shape(tensor));
  std::optional<SparseIndices> sparse;
  if (Find(tensor, "sparse_crow_indices") || Find(tensor, "sparse_col_indices")) {
    sparse.emplace();
    ASSIGN_OR_RETURN(sparse->rows, Integers(tensor, "sparse_crow_indices"));
    ASSIGN_OR_RETURN(sparse->columns, Integers(tensor, "sparse_col_indices"));
  }
  return ShapedTensor(std::move(values), dtype, shape, sparse, filled);
}

absl::StatusOr<at::Tensor> TokensOfJson(const Json& datum, size_t& chunks) {
  ASSIGN_OR_RETURN(const Json* input, ObjectField(datum, "model_input"));
  ASSIGN_OR_RETURN(const Json* list, ListField(*input, "chunks", "model_input"));
  chunks += list->size();
  if (chunks > kMostChunks) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected at most ", kMostChunks, " chunks in a request"));
  }
  std::vector<at::Tensor> parts;
  for (const Json& chunk : *list) {
    const std::string where = absl::StrCat("model_input.chunks[", parts.size(), "]");
    ASSIGN_OR_RETURN(const std::string type, TextField(chunk, "type", "encoded_text", where));
    if (type != "encoded_text") {
      return absl::UnimplementedError(
          absl::StrCat(where, ": '", type, "': this service takes tokens of text only"));
    }
    ASSIGN_OR_RETURN(at::Tensor tokens, Integers(chunk, "tokens"), where);
    parts.push_back(std::move(tokens));
  }
  return parts.empty() ? at::empty({0}, at::kLong) : at::cat(parts);
}

absl::StatusOr<LossDatum> DatumOfJson(const Json& object, size_t& chunks, int64_t& filled) {
  LossDatum datum;
  ASSIGN_OR_RETURN(datum.tokens_N, TokensOfJson(object, chunks));
  RETURN_IF_ERROR(CheckTokens(datum));
  ASSIGN_OR_RETURN(const Json* inputs, ObjectField(object, "loss_fn_inputs"));
  if (inputs->size() > kMostInputs) {
    return absl::InvalidArgumentError(
        absl::StrCat("loss_fn_inputs: expected at most ", kMostInputs, " names"));
  }
  for (const auto& [name, tensor] : inputs->items()) {
    if (name.size() > kLongestName) {
      return absl::InvalidArgumentError(
          absl::StrCat("loss_fn_inputs: expected names of at most ", kLongestName, " bytes"));
    }
    ASSIGN_OR_RETURN(datum.inputs[name], TensorOfJson(tensor, filled), "loss_fn_inputs.", name);
  }
  return datum;
}

absl::Status ConfigOfJson(const Json& input, LossRequest& request) {
  if (Find(input, "loss_fn_config") == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Json* config, ObjectField(input, "loss_fn_config"));
  for (const auto& [name, value] : config->items()) {
    if (name.size() > kLongestName || !(value.is_number() || value.is_string())) {
      return Unexpected(value, "a number or a text",
                        absl::StrCat("loss_fn_config.", name.substr(0, kLongestName)));
    }
    if (value.is_number()) {
      RETURN_IF_ERROR(AddConfig(name, value.get<double>(), request));
    } else {
      RETURN_IF_ERROR(AddConfig(name, value.get<std::string>(), request));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LossRequest> ReadLossJson(absl::string_view body) {
  ASSIGN_OR_RETURN(const Json object, ParseBody(body));
  LossRequest request;
  ASSIGN_OR_RETURN(request.model_id, TextField(object, "model_id", std::nullopt, "", kLongestName));
  ASSIGN_OR_RETURN(request.seq_id, IntegerField(object, "seq_id", 1));
  request.forward_only = Find(object, "forward_input") != nullptr;
  const char* const key = request.forward_only ? "forward_input" : "forward_backward_input";
  ASSIGN_OR_RETURN(const Json* input, ObjectField(object, key));
  ASSIGN_OR_RETURN(request.loss_fn, TextField(*input, "loss_fn", std::nullopt, key, kLongestName));
  RETURN_IF_ERROR(ConfigOfJson(*input, request));
  ASSIGN_OR_RETURN(const Json* data, ListField(*input, "data", key));
  RETURN_IF_ERROR(CheckDatumCount(data->size()));
  size_t chunks = 0;
  int64_t filled = 0;
  for (const Json& datum : *data) {
    ASSIGN_OR_RETURN(LossDatum read, DatumOfJson(datum, chunks, filled), "data[",
                     request.data.size(), "]");
    request.data.push_back(std::move(read));
  }
  return request;
}

}  // namespace moonring::serve
