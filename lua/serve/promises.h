#ifndef MOONRING_LUA_SERVE_PROMISES_H_
#define MOONRING_LUA_SERVE_PROMISES_H_

// The promises of a service: requests whose results clients poll for.
//
//   order      Requests of one model have seq_id 1, 2, 3, ..., and run in this order, in whatever
//              order they arrive. Others (creations, samples) run in the order of arrival.
//   once       A request's id is made of its key: MODEL/SEQ_ID, SAMPLER/SEQ_ID, SESSION/model/N. A
//              request that is sent again has the same id, and is not run again.
//   results    A result is kept until ten minutes after it was first delivered, and is delivered as
//              often as it is asked for; one that nobody asks for is kept for three hours.
//   restarts   Each request and each result is recorded in the journal before a client is
//              answered. After a restart requests without a result run, and those of models run
//              again for their effect on the weights, up to the last state that is on disk (Saved).
//              Samples run again only when somebody polls for them.
//   crashes    A request that ran at each of ten ends of the process in a row is failed instead of
//              run once more. (Ends that Interrupt announced do not count.) If it had a result and
//              ran again only for its effect, the weights of its model cannot be restored, and all
//              requests of the model fail.
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
    int64_t most_bytes = int64_t{4} << 30;  // limit for bodies and results in memory
    // The journal is rewritten once it has this many bytes beyond twice its last rewritten size.
    int64_t least_garbage = int64_t{64} << 20;
    int crashes = 10;  // ends of the process in a row after which a request fails
  };

  // Without a journal nothing outlives the process. `finished` is called with the id of each
  // promise that gets a result, on the thread that finished it, without a lock.
  Promises(Options options, Journal* journal, std::function<void(const std::string& id)> finished);

  // Reads a record of the journal; false: it belongs to another class.
  bool Read(const Journal::Record& record);
  // Decides what runs again. Call it once, after the last record.
  // `states`: for each model with a state on disk the last seq_id in it.
  void Restore(const std::map<std::string, int64_t>& states);

  // Accepts a request; does nothing if its id is known. RESOURCE_EXHAUSTED if too many wait;
  // otherwise the errors of Journal::Append.
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
  // Fails a request that has not begun. Does nothing if it has, or if it waits for an earlier
  // seq_id.
  void Cancel(const std::string& id);
  // Removes a held request; false if it has begun or is unknown.
  bool Revoke(const std::string& id);

  // For the model's thread. Waits at most `wait` for a job whose route is in `routes` (empty: any);
  // nullopt: none came.
  std::optional<Job> Next(Clock::duration wait, const std::set<std::string>& routes);
  void Finish(const std::string& id, Result result);
  // Records that the process ends because it was asked to: this end is no crash of the requests
  // that still run.
  void Interrupt();

  // The model's state is on disk up to this seq_id: earlier requests need not run again.
  absl::Status Saved(const std::string& model, int64_t seq);
  // Removes the promises of a session; one that runs is removed when it has finished.
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
    int64_t number = 0;      // order of acceptance
    int64_t begun = 0;       // order of the first start; 0: never
    int crashes = 0;         // ends of the process in a row while it ran
    bool started = false;    // the model's thread runs it
    bool replay = false;     // has a result, and is to run again for its effect
    bool dormant = false;    // a sample from before a restart: it runs when a client polls for it
    bool forgotten = false;  // its result was freed
    bool dropped = false;    // its session has ended while it ran
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
