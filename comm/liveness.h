#ifndef MOONRING_COMM_LIVENESS_H_
#define MOONRING_COMM_LIVENESS_H_

// How a rank finds out that another rank has failed, and which one.
//
// A thread of each rank increments a heartbeat counter in the store (every 250 ms, less often in
// large worlds) and checks for an announced failure. A rank is not declared dead only because it is
// silent. Rank A is accused only by a rank B whose call with A has failed and that then sees no
// heartbeat of A. The first accusation stays in the store. Every other rank reads it at its next
// heartbeat and closes the connections of all its groups, so each pending call ends at once, with
// the same cause in its message, instead of at its deadline.
//
//   a rank dies -> its connections close -> a peer's call fails -> Blame() names it, announces it
//       -> all ranks close their connections
//
// The process that serves the store may be the one that has stopped. Then nobody can announce
// anything, and each rank names that process at its own call's deadline (bounded_store.h).
//
// While a rank waits in a call, it publishes the call. A rank that waits in an announced call
// (matched_call.h) reads the calls of the others once a heartbeat, in large worlds less often and
// only on some ranks. If ranks wait for one another (standstill.h), it announces this as the
// failure, with the call of each: within some 8 heartbeats if it is certain, else after some 35
// without any change. A rank that waits for its GPU does not wait in a call.
//
// Time from a death to the last rank's error: 8 heartbeats (2 s up to 62 ranks) to tell a dead rank
// from a slow one, plus one heartbeat.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "comm/standstill.h"

namespace moonring::comm {

class Liveness {
 public:
  // `hang_up` is called at most once, on this object's thread, when any rank announces a failure or
  // the store is gone.
  Liveness(c10::intrusive_ptr<c10d::Store> store, bool rank_0_serves, int rank, int size,
           std::function<void()> hang_up);
  ~Liveness();

  // Announces that this run fails because of `cause`. Only the first announcement of all ranks
  // counts; the function returns that first one.
  std::string Announce(absl::string_view cause);

  // Returns the cause of a failed call: the announced cause, if there is one; otherwise a text that
  // names the ranks that are silent or have left, which is also announced; otherwise "" (all other
  // ranks live). `late`: the call ran out of time with its connections open, so a silent rank is
  // not necessarily dead.
  std::string Blame(bool late);

  // Publishes that a call of this rank ran out of time. Gloo then closes its connections, so that
  // calls of its peers fail as if a process had ended: from here on Blame() assumes `late`.
  void NoteTimeout();

  // The announced cause as far as this rank knows it, or "".
  std::string Cause() const;

  // Records that this rank waits in a call of the group with this id, which is the same on all its
  // ranks; "" means in no call. Other ranks can query it after the next heartbeat. `call`: its text
  // for messages; `number`: which of the group's announced calls it is, from 1, or 0; `ranks`: of
  // the group, in the world; they must exist while the call waits.
  void WaitIn(const std::string& group, absl::string_view call = "", int64_t number = 0,
              const std::vector<int>* ranks = nullptr);

  // The group in whose call `rank` is known to wait; "" if it is in no call or this is unknown.
  std::string WaitsIn(int rank);

  // Returns those of `ranks`, except this rank, that are not known to wait in a call of the group.
  // Does not check whether these ranks live: call Blame() first.
  std::vector<int> NotIn(const std::string& group, const std::vector<int>& ranks);

  // Publishes that this rank needs no other rank any more, and ends the thread. With `linger` it
  // first waits until every other rank has left or is dead: the rank that serves the store must
  // leave last. After a failure it waits only until each other rank can have read the cause.
  void Leave(bool linger);

 private:
  void Watch();
  void Beat();
  // The part of a heartbeat that publishes a call in which this rank has waited for a while.
  // Returns for how many heartbeats it has waited in an announced call.
  int PublishWait();
  // Returns the cause of a standstill that has lasted long enough; "" if there is none.
  std::string FindStuckRanks();
  std::vector<RankWait> Waits();
  // Returns the value that a rank of this run has stored at `key`; nullopt if there is none, or if
  // another program has written the value.
  std::optional<std::string> Told(const std::string& key);
  std::string Beats(int rank);  // the heartbeat count of another rank
  std::string SilentRanks(bool late);
  void Learn(std::string cause);

  const char* const store_is_gone_;
  const int rank_, size_;
  const absl::Duration beat_;
  const c10::intrusive_ptr<c10d::Store>
      store_;  // a separate connection; no call on it waits for a key
  const std::function<void()> hang_up_;

  mutable std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;
  bool left_ = false;
  int64_t beats_ = 0;
  std::string cause_;
  std::string waits_in_;
  WaitingCall wait_;  // its group is "" in no call
  const std::vector<int>* wait_ranks_ = nullptr;
  // Only for thread_: the wait that the last heartbeat found, for how many heartbeats, and whether
  // it is published; the standstill that was found last, what all ranks did, their heartbeats, and
  // how often it has been found.
  int64_t last_turn_ = 0;
  int held_ = 0;
  bool is_published_ = false;
  std::optional<Standstill> suspicion_;
  std::vector<int64_t> suspect_turns_;
  std::vector<std::string> suspect_beats_;
  int looks_ = 0;
  std::thread thread_;
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_LIVENESS_H_
