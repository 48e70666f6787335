#ifndef MOONRING_LUA_SERVE_PROMISES_H_
#define MOONRING_LUA_SERVE_PROMISES_H_

// The promises of a service: requests whose results clients poll for.
//
//   order      Requests of one model have seq_id 1, 2, 3, ..., and run in this order, however they
//              come in. Others (creations, samples) run in the order in which they come.
//   once       A request's id is made of its key: MODEL/SEQ_ID, SAMPLER/SEQ_ID, SESSION/model/N. A
//              request that comes again has the same id, and does nothing.
//   results    A result is kept until ten minutes after it was first delivered, and is delivered as
//              often as it is asked for; one that nobody asks for is kept for three hours.
//   restarts   Each request and each result is recorded in the journal before a client is
//              answered. After a restart requests without a result run, and those of models run
//              again for their effect on the weights, up to the last state that is on disk (Saved).
//              Samples run again only when somebody polls for them.
//   crashes    A request that was running at ten ends of the process in a row (ends that
//              Interrupt did not announce) fails instead of ending it once more. If it ran for its effect again, the weights of its model
//              cannot be restored, and all requests of the model fail.
//
// Thread-safe: the server's thread accepts and polls, the model's thread takes jobs and finishes
// them.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lua/serve/journal.h"
#include "lua/serve/request.h"

namespace moonring::serve {

class Promises {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    std::chrono::seconds kept{600};          // a delivered result
    std::chrono::seconds unclaimed{10'800};  // a result that was not delivered
    std::chrono::seconds missing{600};       // how long a request waits for an earlier seq_id
    int64_t most_promises = 1 << 20;
    int64_t most_bytes = int64_t{4} << 30;      // of bodies and results in memory
    int64_t least_garbage = int64_t{64} << 20;  // bytes for which the journal is rewritten
    int crashes = 10;
  };

  // Without a journal nothing outlives the process. `finished` is called with the id of each
  // promise that gets a result, on the thread that finished it, without a lock.
  Promises(Options options, Journal* journal, std::function<void(const std::string& id)> finished);

  // Reads a record of the journal; false: it is not of this class. After the last one, Restore.
  bool Read(const Journal::Record& record);
  // `states`: for each model with a state on disk the last seq_id in it.
  void Restore(const std::map<std::string, int64_t>& states);

  // Accepts a request, or finds it if it came before. RESOURCE_EXHAUSTED if too many wait, and if
  // the journal cannot be written.
  absl::Status Accept(Request request, Clock::time_point now);

  // The result of a request; an id is unknown if it never came, or if its result was forgotten.
  enum class State { kUnknown, kWaiting, kDone };
  struct Answer {
    State state;
    Result result;
    std::string route;  // of the request
  };
  Answer Poll(const std::string& id, Clock::time_point now);
  // Whether a model was created, or is being created.
  bool Knows(const std::string& model) const;
  // Fails a request that has not begun; does nothing if it has.
  void Cancel(const std::string& id);
  // Removes a held request; false if it has begun.
  bool Revoke(const std::string& id);

  // For the model's thread. The next job whose route is in `routes` (empty: any), waiting so long.
  std::optional<Job> Next(Clock::duration wait, const std::set<std::string>& routes);
  void Finish(const std::string& id, Result result);
  // Records that the process ends because it was asked to: what still runs has not made it crash.
  void Interrupt();

  // The model's state is on disk up to this seq_id: earlier requests need not run again.
  absl::Status Saved(const std::string& model, int64_t seq);
  // Drops what waits of a session.
  void Drop(const std::string& session);
  // Frees results that are old, and fails requests that waited too long for an earlier one.
  void Tidy(Clock::time_point now);

  // Rewrites the journal without what is no longer needed, if that has become most of it; `others`
  // are the records of other classes to keep. Call it on the thread that appends those.
  absl::Status Compact(std::vector<Journal::Kept> others);
  // The last error of the journal since the last call: results that were not recorded would be
  // computed again after a restart.
  absl::Status TakeTrouble();

 private:
  struct Promise {
    Request request;
    int64_t number = 0;  // order of acceptance
    int64_t begun = 0;   // order of the first start; 0: never
    int crashes = 0;     // ends of the process in a row while it ran
    bool started = false, replay = false, dormant = false, forgotten = false;
    bool dropped = false;  // its session has ended while it ran
    std::optional<Result> result;
    std::optional<Clock::time_point> delivered;
    Clock::time_point accepted, finished;
    Journal::Place place, result_place;  // in the journal
    bool holds_body = true;              // else the journal has it
  };
  struct Order {
    int64_t next = 1;   // the seq_id that may run
    int64_t saved = 0;  // in the last state on disk
    bool has_state = false;
    std::string broken;                    // why all requests fail; "": they run
    std::map<int64_t, std::string> later;  // requests that wait for an earlier one
  };
  using Table = std::map<std::string, Promise>;

  void Ready(Promise& promise);
  void Advance(Order& order);
  void SetResult(Promise& promise, Result result);
  void Note(const absl::Status& status);
  bool IsReplayed(const Promise& promise) const;
  bool IsOrdered(const Promise& promise) const;
  Table::iterator Forget(Table::iterator found);
  std::optional<Job> Take(const std::set<std::string>& routes);
  void FailMissing(Clock::time_point now, std::vector<std::string>& failed);
  void ReadRequest(const Journal::Record& record);
  void RestoreOne(Promise& promise);
  void FailBroken();
  void Erase(const std::string& session);
  std::vector<Journal::Kept> Kept(std::vector<std::pair<std::string, bool>>& owners);

  const Options options_;
  Journal* const journal_;
  const std::function<void(const std::string& id)> finished_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Table promises_;
  std::map<std::string, Order> orders_;
  std::deque<std::string> ready_;  // ids, in the order in which they run
  int64_t numbers_ = 0, begins_ = 0, bytes_ = 0;
  int64_t compacted_ = 0;  // bytes of the journal after it was last rewritten
  absl::Status trouble_;
};

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_PROMISES_H_
