#include "lua/serve/loss_reader.h"

#include <optional>
#include <utility>

#include <ATen/ops/cat.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "lua/serve/loss_checks.h"
#include "lua/serve/loss_json.h"
#include "lua/serve/loss_tensors.h"
#include "lua/serve/name_text.h"
#include "lua/serve/wire.h"

namespace moonring::serve {
namespace {

using Kind = WireField::Kind;

// Counts over the datums of a request that were read so far, for its limits.
struct Used {
  size_t chunks = 0;
  int64_t filled = 0;
};

absl::Status Expect(const WireField& field, Kind kind, absl::string_view name) {
  if (field.kind == kind) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": field ", field.number, " has the wire type ",
                   static_cast<int>(field.kind), "; expected ", static_cast<int>(kind)));
}

absl::StatusOr<std::string> Text(const WireField& field, absl::string_view name,
                                 size_t most = kLongestName) {
  RETURN_IF_ERROR(Expect(field, Kind::kBytes, name));
  RETURN_IF_ERROR(CheckText(field.bytes, most), name);
  return std::string(field.bytes);
}

// Calls `take` with each field of a nested message.
template <typename Take>
absl::Status EachInner(const WireField& message, absl::string_view name, const Take& take) {
  RETURN_IF_ERROR(Expect(message, Kind::kBytes, name));
  return EachField(message.bytes, take);
}

absl::StatusOr<at::Tensor> ReadChunk(const WireField& chunk) {
  std::optional<at::Tensor> tokens;
  RETURN_IF_ERROR(EachInner(chunk, "chunk", [&](const WireField& field) {
    if (field.number == 2)
      return absl::UnimplementedError("a picture: this service takes tokens of text only");
    if (field.number == 3)
      return absl::UnimplementedError("audio (dmel): this service takes tokens of text only");
    if (field.number != 1) return absl::OkStatus();
    if (!tokens.has_value()) tokens = *NumbersOf("", WireDtype::kInt32);
    return EachInner(field, "encoded_text", [&](const WireField& inner) {
      if (inner.number != 1) return absl::OkStatus();
      RETURN_IF_ERROR(Expect(inner, Kind::kBytes, "tokens"));
      ASSIGN_OR_RETURN(tokens, NumbersOf(inner.bytes, WireDtype::kInt32), "tokens");
      return absl::OkStatus();
    });
  }));
  if (!tokens.has_value())
    return absl::InvalidArgumentError("a chunk of an unknown kind; expected encoded_text");
  return *std::move(tokens);
}

struct SparseBytes {
  absl::string_view values, rows, columns;
};

absl::Status ReadSparse(const WireField& message, SparseBytes& sparse) {
  return EachInner(message, "sparse_csr", [&](const WireField& field) {
    absl::string_view* const parts[] = {&sparse.values, &sparse.rows, &sparse.columns};
    if (field.number < 1 || field.number > 3) return absl::OkStatus();
    RETURN_IF_ERROR(Expect(field, Kind::kBytes, "sparse_csr"));
    *parts[field.number - 1] = field.bytes;
    return absl::OkStatus();
  });
}

absl::StatusOr<at::Tensor> ReadTensor(const WireField& message, Used& used) {
  absl::string_view dense;
  std::optional<SparseBytes> sparse;
  int64_t dtype_number = 0;
  std::vector<int64_t> shape;
  RETURN_IF_ERROR(EachInner(message, "tensor", [&](const WireField& field) {
    switch (field.number) {
      case 1:
        RETURN_IF_ERROR(Expect(field, Kind::kBytes, "dense"));
        dense = field.bytes;
        sparse.reset();
        break;
      case 2:
        if (!sparse.has_value()) sparse.emplace();
        return ReadSparse(field, *sparse);
      case 3:
        RETURN_IF_ERROR(Expect(field, Kind::kVarint, "dtype"));
        dtype_number = static_cast<int64_t>(field.value);
        break;
      case 4:
        return AppendIntegers(field, kMostDims, shape);
      default:
        break;
    }
    return absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(const WireDtype dtype, WireDtypeOf(dtype_number));
  std::optional<SparseIndices> indices;
  if (sparse.has_value()) {
    indices.emplace();
    ASSIGN_OR_RETURN(indices->rows, NumbersOf(sparse->rows, WireDtype::kInt64), "crow_indices");
    ASSIGN_OR_RETURN(indices->columns, NumbersOf(sparse->columns, WireDtype::kInt64),
                     "col_indices");
    dense = sparse->values;
  }
  ASSIGN_OR_RETURN(at::Tensor values, NumbersOf(dense, dtype));
  return ShapedTensor(std::move(values), dtype, shape, indices, used.filled);
}

absl::Status ReadInput(const WireField& entry, Used& used, LossDatum& datum) {
  std::string name;
  WireField value{.kind = Kind::kBytes};
  RETURN_IF_ERROR(EachInner(entry, "loss_fn_inputs", [&](const WireField& field) {
    if (field.number == 1) {
      ASSIGN_OR_RETURN(name, Text(field, "loss_fn_inputs"));
    } else if (field.number == 2) {
      value = field;
    }
    return absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(datum.inputs[name], ReadTensor(value, used), "loss_fn_inputs.", name);
  if (datum.inputs.size() <= kMostInputs) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("loss_fn_inputs: expected at most ", kMostInputs, " names"));
}

absl::StatusOr<LossDatum> ReadDatum(const WireField& message, Used& used) {
  LossDatum datum;
  std::vector<at::Tensor> chunks;
  RETURN_IF_ERROR(EachInner(message, "datum", [&](const WireField& field) {
    if (field.number == 2) return ReadInput(field, used, datum);
    if (field.number != 1) return absl::OkStatus();  // also provenance spans
    if (++used.chunks > kMostChunks) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected at most ", kMostChunks, " chunks in a request"));
    }
    ASSIGN_OR_RETURN(at::Tensor tokens, ReadChunk(field), "model_input[", chunks.size(), "]");
    chunks.push_back(std::move(tokens));
    return absl::OkStatus();
  }));
  if (!chunks.empty()) datum.tokens_N = chunks.size() == 1 ? chunks[0] : at::cat(chunks);
  RETURN_IF_ERROR(CheckTokens(datum));
  return datum;
}

absl::Status ReadConfig(const WireField& entry, bool is_typed, LossRequest& request) {
  std::string name;
  std::variant<double, std::string> value = 0.0;
  const auto take_number = [&](const WireField& field) {
    RETURN_IF_ERROR(Expect(field, Kind::kFixed64, "number"));
    value = field.AsDouble();
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(EachInner(entry, "loss_fn_config", [&](const WireField& field) {
    if (field.number == 1) {
      ASSIGN_OR_RETURN(name, Text(field, "loss_fn_config"));
    } else if (field.number == 2 && !is_typed) {
      return take_number(field);
    } else if (field.number == 2) {
      return EachInner(field, "loss_fn_config", [&](const WireField& inner) {
        if (inner.number == 1) return take_number(inner);
        if (inner.number != 2) return absl::OkStatus();
        ASSIGN_OR_RETURN(value, Text(inner, "loss_fn_config", kLongestConfigText));
        return absl::OkStatus();
      });
    }
    return absl::OkStatus();
  }));
  return AddConfig(std::move(name), std::move(value), request);
}

absl::Status ReadRequestField(const WireField& field, Used& used, LossRequest& request) {
  switch (field.number) {
    case 1: {
      ASSIGN_OR_RETURN(request.model_id, Text(field, "model_id"));
      break;
    }
    case 2:
      RETURN_IF_ERROR(Expect(field, Kind::kVarint, "seq_id"));
      request.seq_id = static_cast<int32_t>(field.value);
      break;
    case 3: {
      RETURN_IF_ERROR(CheckDatumCount(request.data.size() + 1));
      ASSIGN_OR_RETURN(LossDatum datum, ReadDatum(field, used), "data[", request.data.size(), "]");
      request.data.push_back(std::move(datum));
      break;
    }
    case 4: {
      ASSIGN_OR_RETURN(request.loss_fn, Text(field, "loss_fn"));
      break;
    }
    case 6:
      RETURN_IF_ERROR(Expect(field, Kind::kVarint, "forward_only"));
      request.forward_only = field.value != 0;
      break;
    default:
      break;
  }
  return absl::OkStatus();
}

absl::StatusOr<LossRequest> ReadProtobuf(absl::string_view body) {
  LossRequest request, older;
  Used used;
  bool has_typed = false;
  RETURN_IF_ERROR(EachField(body, [&](const WireField& field) {
    if (field.number == 5) return ReadConfig(field, /*is_typed=*/false, older);
    if (field.number != 7) return ReadRequestField(field, used, request);
    has_typed = true;
    return ReadConfig(field, /*is_typed=*/true, request);
  }));
  // Newer clients send both maps; the older one has no texts.
  if (!has_typed) request.config = std::move(older.config);
  return request;
}

}  // namespace

absl::StatusOr<LossRequest> ReadLossRequest(absl::string_view body, absl::string_view type) {
  const bool is_json = absl::StrContains(type, "json");
  ASSIGN_OR_RETURN(LossRequest request, is_json ? ReadLossJson(body) : ReadProtobuf(body));
  if (request.model_id.empty()) return absl::InvalidArgumentError("model_id: is missing");
  if (request.seq_id < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("seq_id: expected 1 or more, got ", request.seq_id));
  }
  if (request.loss_fn.empty()) return absl::InvalidArgumentError("loss_fn: is missing");
  if (request.data.empty()) return absl::InvalidArgumentError("data: has no datums");
  return request;
}

}  // namespace moonring::serve
