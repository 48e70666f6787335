#include "lua/serve/promise_records.h"

#include <utility>

namespace moonring::serve {

using nlohmann::json;

json RequestRecord(const Request& request, int64_t begun, int crashes) {
  json record = {{"is", "request"},
                 {"id", request.id},
                 {"route", request.route},
                 {"type", request.type},
                 {"session", request.session},
                 {"model", request.model},
                 {"seq", request.seq},
                 {"effect", static_cast<int>(request.effect)},
                 {"seed", request.seed}};
  if (begun > 0) record["begun"] = begun;
  if (crashes > 0) record["crashes"] = crashes;
  return record;
}

Request RequestOf(const json& record) {
  Request request;
  request.id = record.value("id", "");
  request.route = record.value("route", "");
  request.type = record.value("type", "");
  request.session = record.value("session", "");
  request.model = record.value("model", "");
  request.seq = record.value("seq", int64_t{0});
  request.effect = static_cast<Effect>(record.value("effect", 0));
  request.seed = record.value("seed", uint64_t{0});
  return request;
}

json BegunRecord(const std::string& id) { return {{"is", "begun"}, {"id", id}}; }

json ResultRecord(const std::string& id, const Result& result, bool forgotten) {
  json record = {{"is", "result"}, {"id", id}, {"failed", result.failed}, {"type", result.type}};
  if (forgotten) record["forgotten"] = true;
  return record;
}

json ReplayedRecord(const std::string& id) { return {{"is", "replayed"}, {"id", id}}; }

json InterruptedRecord(const std::string& id) { return {{"is", "interrupted"}, {"id", id}}; }

json SavedRecord(const std::string& model, int64_t seq) {
  return {{"is", "saved"}, {"model", model}, {"seq", seq}};
}

json DroppedRecord(const std::string& session) { return {{"is", "dropped"}, {"session", session}}; }

Result Failure(std::string message, std::string category) {
  return {true, std::move(message), std::move(category)};
}

}  // namespace moonring::serve
