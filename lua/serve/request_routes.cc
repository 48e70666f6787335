// Requests of a service that become jobs, and polls for their results.

#include <sys/random.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "lua/serve/request_key.h"
#include "lua/serve/result_json.h"
#include "lua/serve/route_table.h"
#include "lua/serve/service_impl.h"

namespace moonring::serve {
namespace {

constexpr int64_t kMostSamples = 4096;
constexpr size_t kLargeResult = size_t{4} << 20;  // bytes; above, a poll may get the size alone
constexpr absl::string_view kProtobuf = "application/x-protobuf";
constexpr const char* kStays =
    "; a service that was started with another output_dir does not know it";

// A seed for the random draws of a request, less than 2^53, so that Lua's numbers hold it.
uint64_t NewSeed() {
  uint64_t seed = 0;
  while (getrandom(&seed, sizeof(seed), 0) != static_cast<ssize_t>(sizeof(seed))) {
  }
  return seed >> 11;
}

std::string TypeOf(const Impl::Asked& asked) {
  const auto found = asked.headers.find("content-type");
  return found == asked.headers.end() ? "" : found->second;
}

}  // namespace

// A session that has ended is 410, so that clients stop asking.
absl::Status Impl::CheckSession(const std::string& session) {
  if (registry_->Touch(session, Registry::Clock::now())) return absl::OkStatus();
  return absl::CancelledError(
      absl::StrCat("session '", session, "' has ended, or never existed", kStays));
}

Impl::Answer Impl::Accept(Request request, const Asked& asked) {
  RETURN_IF_ERROR(CheckSession(request.session));
  request.body = asked.body;
  request.type = TypeOf(asked);
  request.seed = NewSeed();
  Json answer = {{"request_id", request.id}};
  if (request.seq > 0 && !registry_->Fact("model", request.model) &&
      !promises_->Knows(request.model)) {
    return absl::NotFoundError(absl::StrCat("model_id: no model '", request.model, "'"));
  }
  if (!request.model.empty()) answer["model_id"] = request.model;
  RETURN_IF_ERROR(promises_->Accept(std::move(request), Promises::Clock::now()));
  return JsonResponse(answer);
}

Impl::Answer Impl::Create(const Asked& asked, const Match& match) {
  ASSIGN_OR_RETURN(Request request, CreationKey(match.route->job, asked.body));
  return Accept(std::move(request), asked);
}

Impl::Answer Impl::Loss(const Asked& asked, const Match& match) {
  ASSIGN_OR_RETURN(Request request, LossKey(match.route->job, asked.body, TypeOf(asked)));
  return Accept(std::move(request), asked);
}

Impl::Answer Impl::OfModel(const Asked& asked, const Match& match) {
  ASSIGN_OR_RETURN(Request request, ModelKey(match.route->job, asked.body));
  if (match.route->job == std::string("save_weights_for_sampler") &&
      request.effect == Effect::kWeights) {
    ASSIGN_OR_RETURN(const Json fields, ParseBody(asked.body));
    ASSIGN_OR_RETURN(const int64_t number, IntegerField(fields, "sampling_session_seq_id", 0));
    RETURN_IF_ERROR(CheckSession(request.session));
    RETURN_IF_ERROR(
        registry_->AddSampler(SamplerId(request.session, number), {request.session, "", ""}));
  }
  return Accept(std::move(request), asked);
}

Impl::Answer Impl::Sample(const Asked& asked, const Match& match) {
  ASSIGN_OR_RETURN(const Json fields, ParseBody(asked.body));
  ASSIGN_OR_RETURN(const std::string sampler, TextField(fields, "sampling_session_id"));
  ASSIGN_OR_RETURN(const int64_t seq, IntegerField(fields, "seq_id", 0));
  ASSIGN_OR_RETURN(const int64_t samples, IntegerField(fields, "num_samples", 1, 1));
  if (samples > kMostSamples) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_samples: expected at most ", kMostSamples, ", got ", samples));
  }
  const auto found = registry_->FindSampler(sampler);
  if (!found) {
    return absl::NotFoundError(
        absl::StrCat("sampling_session_id: no sampling session '", sampler, "'", kStays));
  }
  RETURN_IF_ERROR(CheckSession(found->session));
  Request request{.route = match.route->job,
                  .body = asked.body,
                  .type = TypeOf(asked),
                  .session = found->session,
                  .id = absl::StrCat(sampler, "/", seq),
                  .effect = Effect::kSample,
                  .seed = NewSeed()};
  Json ids = Json::array();
  for (int64_t i = 0; i < samples; ++i) ids.push_back(absl::StrCat(request.id, "/", i));
  const std::string id = request.id;
  RETURN_IF_ERROR(promises_->Accept(std::move(request), Promises::Clock::now()));
  return JsonResponse({{"request_id", id}, {"sample_sequence_ids", std::move(ids)}});
}

Impl::Answer Impl::Hold(const Asked& asked, const Match& match) {
  if (asked.method == "POST") RETURN_IF_ERROR(ParseBody(asked.body).status());
  Request request{.route = match.route->job,
                  .body = asked.body,
                  .type = TypeOf(asked),
                  .id = absl::StrCat("held/", asked.id),
                  .effect = Effect::kHeld,
                  .seed = NewSeed()};
  {
    const std::lock_guard lock(mutex_);
    held_.insert(asked.id);
  }
  const std::string id = request.id;
  const absl::Status status = promises_->Accept(std::move(request), Promises::Clock::now());
  if (!status.ok()) Forget(id);
  RETURN_IF_ERROR(status);
  return std::nullopt;
}

Impl::Answer Impl::DeleteCheckpoint(const Asked& asked, const Match& match) {
  const std::string path =
      absl::StrCat("tinker://", match.parts[0], "/", match.parts[1], "/", match.parts[2]);
  if (!registry_->Fact("checkpoint", path))
    return absl::NotFoundError(absl::StrCat("there are no saved weights ", path));
  Asked with = asked;
  with.body = Written({{"tinker_path", path}});
  return Hold(with, match);
}

// The answer to a poll; nullopt: there is no result yet.
std::optional<Impl::Response> Impl::ResultOf(const Poll& poll) {
  const std::string& promise = poll.promise;
  Promises::Answer answer = promises_->Poll(promise, Promises::Clock::now());
  if (answer.state == Promises::State::kWaiting) return std::nullopt;
  if (answer.state == Promises::State::kUnknown) {
    return Refusal("/api/", 410,
                   absl::StrCat("request '", promise, "' is not known, or its result was kept for ",
                                options_.promises.kept.count(), " seconds and is forgotten"));
  }
  Result& result = answer.result;
  if (result.failed)
    return JsonResponse({{"error", result.body}, {"category", result.type}, {"type", "error"}});
  if (poll.takes_metadata && result.body.size() > kLargeResult) {
    return JsonResponse(
        {{"status", "complete_metadata"}, {"response_payload_size", result.body.size()}});
  }
  if (poll.takes_json && result.type == kProtobuf) {
    const absl::StatusOr<Json> json =
        answer.route == "asample" ? SampleResultJson(result.body) : LossResultJson(result.body);
    if (json.ok()) return JsonResponse(*json);
  }
  return Response{.status = 200, .type = std::move(result.type), .body = std::move(result.body)};
}

Impl::Answer Impl::Retrieve(const Asked& asked, const Match&) {
  ASSIGN_OR_RETURN(const Json fields, ParseBody(asked.body));
  ASSIGN_OR_RETURN(const std::string promise, TextField(fields, "request_id"));
  const auto accept = asked.headers.find("accept");
  Poll poll{.promise = promise,
            .takes_json =
                accept == asked.headers.end() || !absl::StrContains(accept->second, "protobuf")};
  ASSIGN_OR_RETURN(poll.takes_metadata, BoolField(fields, "allow_metadata_only", false));
  if (auto response = ResultOf(poll)) return response;
  polls_[asked.id] = std::move(poll);
  server_->After(options_.poll, [this, id = asked.id] {
    const auto found = polls_.find(id);
    if (found == polls_.end()) return;
    server_->Reply(id, JsonResponse({{"type", "try_again"},
                                     {"request_id", found->second.promise},
                                     {"queue_state", "active"}},
                                    408));
    polls_.erase(found);
  });
  return std::nullopt;
}

Impl::Answer Impl::Cancel(const Asked& asked, const Match&) {
  ASSIGN_OR_RETURN(const Json fields, ParseBody(asked.body));
  ASSIGN_OR_RETURN(const std::string promise, TextField(fields, "request_id"));
  promises_->Cancel(promise);
  return JsonResponse({{"status", "accepted"}});
}

}  // namespace moonring::serve
