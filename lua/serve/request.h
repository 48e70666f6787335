#ifndef MOONRING_LUA_SERVE_REQUEST_H_
#define MOONRING_LUA_SERVE_REQUEST_H_

// A client's request that the model's thread runs, and its result (promises.h).

#include <cstdint>
#include <string>

namespace moonring::serve {

// The kinds of promises, by what a restart does with them.
enum class Effect {
  kNone,     // runs again only to make its result
  kWeights,  // runs again for its effect on a model
  kSample,   // runs again only if it is polled
  kHeld,     // is no promise: the client waits for it, and it is not in the journal
};

struct Request {
  std::string route, body, type;
  std::string session;  // whose end drops the request
  std::string model;    // "": not in the order of a model
  int64_t seq = 0;      // in the order of the model
  std::string id;       // made of the request's key
  Effect effect = Effect::kNone;
  uint64_t seed = 0;  // for random draws, less than 2^53
};

// A request that the model's thread is to run.
struct Job {
  std::string id, route, body, type, session, model;
  int64_t seq = 0;
  uint64_t seed = 0;
  bool replay = false;  // its result is known: it runs for its effect on the weights
};

struct Result {
  bool failed = false;
  std::string body, type;  // of a failure: the message, and its category
};

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_REQUEST_H_
