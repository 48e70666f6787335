#ifndef MOONRING_LUA_SERVE_PROMISE_RECORDS_H_
#define MOONRING_LUA_SERVE_PROMISE_RECORDS_H_

// The records of promises in a journal, by their field "is":
//
//   request      a request was accepted; its body is the record's body
//   begun        the model's thread began to run it
//   replayed     after a restart it ran again, for its effect on the weights
//   interrupted  the process was asked to end (by a signal, say) and ended while it ran
//   result       it has a result, which is the record's body
//   saved        a model's state is on disk up to a seq_id
//   dropped      a session has ended, and all its requests with it

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "lua/serve/promises.h"

namespace moonring::serve {

// `begun`: the request's place in the order in which requests began to run; 0: it has not begun.
// `crashes`: how many times in a row the process ended while it ran.
nlohmann::json RequestRecord(const Request& request, int64_t begun = 0, int crashes = 0);
Request RequestOf(const nlohmann::json& record);  // without its body
nlohmann::json BegunRecord(const std::string& id);
nlohmann::json ResultRecord(const std::string& id, const Result& result, bool forgotten = false);
nlohmann::json ReplayedRecord(const std::string& id);
nlohmann::json InterruptedRecord(const std::string& id);
nlohmann::json SavedRecord(const std::string& model, int64_t seq);
nlohmann::json DroppedRecord(const std::string& session);

// The result of a request that failed. `category`: "user" or "server".
Result Failure(std::string message, std::string category);

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_PROMISE_RECORDS_H_
