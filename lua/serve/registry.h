#ifndef MOONRING_LUA_SERVE_REGISTRY_H_
#define MOONRING_LUA_SERVE_REGISTRY_H_

// What a service knows without its models: sessions, sampling sessions, and facts. A fact is a JSON
// text by kind and id, which the model's thread publishes, so that questions are answered while it
// computes:
//
//   model       what get_info says, by model_id
//   run         what training_runs says, by model_id
//   weights     what weights_info says, by tinker:// path
//   checkpoint  an entry of the listings of saved weights, by tinker:// path
//   sampler     what samplers/ID says, by sampling_session_id
//
// Sessions and sampling sessions are in the journal. Thread-safe.

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "lua/serve/journal.h"

namespace moonring::serve {

class Registry {
 public:
  using Clock = std::chrono::steady_clock;
  using Json = nlohmann::json;

  explicit Registry(Journal* journal) : journal_(journal) {}

  // Reads a record of the journal; false: it is not of this class.
  bool Read(const Journal::Record& record, Clock::time_point now);
  std::vector<Journal::Kept> Records() const;

  // A new session. `key`: the idempotency key of the request; "": none. RESOURCE_EXHAUSTED if there
  // are too many.
  absl::StatusOr<std::string> NewSession(const std::string& key, Clock::time_point now);
  // Records that a session is used now; false: there is no such session.
  bool Touch(const std::string& session, Clock::time_point now);
  // Removes a session and its sampling sessions; false: there is no such session.
  bool End(const std::string& session);
  // The sessions that were not used since then.
  std::vector<std::string> Silent(Clock::time_point since) const;

  // A sampling session of a base model, of saved weights (tinker://), or of a snapshot ("").
  struct Sampler {
    std::string session, base_model, path;
    // The name by which the model's thread finds the weights. `id`: of this sampling session.
    const std::string& weights(const std::string& id) const {
      return !path.empty() ? path : !base_model.empty() ? base_model : id;
    }
  };
  absl::Status AddSampler(const std::string& id, const Sampler& sampler);
  std::optional<Sampler> FindSampler(const std::string& id) const;

  void Publish(const std::string& kind, const std::string& id, std::string json);
  void Withdraw(const std::string& kind, const std::string& id);
  std::optional<std::string> Fact(const std::string& kind, const std::string& id) const;
  // The ids and JSON texts of a kind's facts whose ids begin with `beginning`, ordered by id.
  std::vector<std::pair<std::string, std::string>> Facts(const std::string& kind,
                                                         const std::string& beginning = "") const;

 private:
  static constexpr size_t kMostSessions = 4096, kMostSamplers = size_t{1} << 18;

  struct Session {
    std::string key;
    Clock::time_point used;
  };

  Journal* const journal_;
  mutable std::mutex mutex_;
  std::map<std::string, Session> sessions_;
  std::map<std::string, Sampler> samplers_;
  std::map<std::string, std::map<std::string, std::string>> facts_;  // by kind and id
};

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_REGISTRY_H_
