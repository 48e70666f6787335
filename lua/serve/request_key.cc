#include "lua/serve/request_key.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "lua/serve/body_json.h"
#include "lua/serve/loss_request.h"
#include "lua/serve/wire.h"

namespace moonring::serve {
namespace {

constexpr int64_t kLargestSeq = (int64_t{1} << 31) - 1;  // an int32 in protobuf

absl::StatusOr<Request> OrderedKey(absl::string_view route, std::string model, int64_t seq) {
  if (SessionOf(model).empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model_id: expected SESSION:train:NUMBER, which create_model returns, got '", model, "'"));
  }
  if (seq < 1 || seq > kLargestSeq) {
    return absl::InvalidArgumentError(
        absl::StrCat("seq_id: expected 1 to ", kLargestSeq, ", got ", seq));
  }
  Request request;
  request.route = std::string(route);
  request.session = SessionOf(model);
  request.id = absl::StrCat(model, "/", seq);
  request.model = std::move(model);
  request.seq = seq;
  return request;
}

// Reads model_id, seq_id and forward_only, and skips the data.
absl::StatusOr<Request> WireLossKey(absl::string_view route, absl::string_view body) {
  std::string model;
  int64_t seq = 0;
  bool forward_only = false;
  RETURN_IF_ERROR(EachField(body, [&](const WireField& field) {
    if (field.number == 1 && field.kind == WireField::Kind::kBytes)
      model = std::string(field.bytes.substr(0, kLongestName));
    if (field.number == 2 && field.kind == WireField::Kind::kVarint)
      seq = static_cast<int64_t>(field.value);
    if (field.number == 6 && field.kind == WireField::Kind::kVarint)
      forward_only = field.value != 0;
    return absl::OkStatus();
  }),
                  "the body");
  ASSIGN_OR_RETURN(Request request, OrderedKey(route, std::move(model), seq));
  request.effect = forward_only ? Effect::kNone : Effect::kWeights;
  return request;
}

}  // namespace

std::string ModelId(absl::string_view session, int64_t number) {
  return absl::StrCat(session, ":train:", number);
}

std::string SamplerId(absl::string_view session, int64_t number) {
  return absl::StrCat(session, ":sample:", number);
}

std::string SessionOf(absl::string_view id) {
  for (const absl::string_view kind : {":train:", ":sample:"}) {
    const size_t place = id.find(kind);
    if (place != absl::string_view::npos) return std::string(id.substr(0, place));
  }
  return "";
}

absl::StatusOr<Request> LossKey(absl::string_view route, absl::string_view body,
                                absl::string_view type) {
  absl::StatusOr<Request> request =
      absl::StrContains(type, "json") ? ModelKey(route, body) : WireLossKey(route, body);
  if (request.ok() && route == "forward") request->effect = Effect::kNone;
  return request;
}

absl::StatusOr<Request> CreationKey(absl::string_view route, absl::string_view body) {
  ASSIGN_OR_RETURN(const Json fields, ParseBody(body));
  Request request;
  ASSIGN_OR_RETURN(request.session, TextField(fields, "session_id"));
  ASSIGN_OR_RETURN(const int64_t number, IntegerField(fields, "model_seq_id", 0));
  request.route = std::string(route);
  request.id = absl::StrCat(request.session, "/model/", number);
  request.model = ModelId(request.session, number);
  request.effect = Effect::kWeights;
  return request;
}

absl::StatusOr<Request> ModelKey(absl::string_view route, absl::string_view body) {
  ASSIGN_OR_RETURN(const Json fields, ParseBody(body));
  if (route == "load_weights" && Find(fields, "model_id") == nullptr)
    return CreationKey(route, body);
  ASSIGN_OR_RETURN(std::string model, TextField(fields, "model_id"));
  ASSIGN_OR_RETURN(const int64_t seq, IntegerField(fields, "seq_id", 1));
  ASSIGN_OR_RETURN(Request request, OrderedKey(route, std::move(model), seq));
  const bool is_snapshot = route == "save_weights_for_sampler" && Find(fields, "path") == nullptr;
  const bool changes = route == "optim_step" || route == "load_weights" || is_snapshot ||
                       route == "forward_backward";
  request.effect = changes ? Effect::kWeights : Effect::kNone;
  return request;
}

}  // namespace moonring::serve
