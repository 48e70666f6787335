#ifndef MOONRING_COMM_LIVENESS_H_
#define MOONRING_COMM_LIVENESS_H_

// How a rank learns that another has failed, and which.
//
// A thread of each rank counts a heartbeat up in the store (every 250 ms, less often in large
// worlds) and looks for an announced failure. Nobody is declared dead for being silent: a rank is
// accused only when a call with it has failed, by who then shows no heartbeat. The first accusation
// stands in the store; every other rank sees it at its next beat, hangs up all its groups, and so
// each pending call ends at once instead of at its deadline, with the same cause in its message.
//
//   a rank dies -> its connections close -> a peer's call fails -> Blame() names it, announces it
//       -> all ranks hang up
//
// The process that serves the store may be the one that is stopped: then nobody can announce
// anything, and each rank names it by itself, at its own call's deadline (bounded_store.h).
//
// Time from a death to the last rank's error: about 2 s to tell dead from slow, and a beat.

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

namespace moonring::comm {

class Liveness {
 public:
  // `hang_up` is called once at most, on the thread here, when a failure is announced by any rank
  // or the store is gone.
  Liveness(c10::intrusive_ptr<c10d::Store> store, bool rank_0_serves, int rank, int size,
           std::function<void()> hang_up);
  ~Liveness();

  // Announces that this run fails because of `cause`. The first of all ranks' announcements stands
  // and is returned.
  std::string Announce(absl::string_view cause);

  // After a failed call: the announced cause; else who is silent or has left, which this announces;
  // else "" (all others live). `late`: the call ran out of time with its connections open, so that
  // a silent rank need not be dead.
  std::string Blame(bool late);

  // The announced cause as far as known here, or "".
  std::string Cause() const;

  // This rank waits in a call of a group, by a name that all its ranks have for it; "": in none.
  // The others can ask for it from the next beat on.
  void WaitIn(const std::string& group);

  // The group in whose call a rank is known to wait; "" where it is in none, or nobody knows.
  std::string WaitsIn(int rank);

  // Those of `ranks` that live and are not known to wait in a call of the group.
  std::vector<int> NotIn(const std::string& group, const std::vector<int>& ranks);

  // Tells that this rank needs nobody any more and ends the thread. Where `linger`, waits for the
  // others to leave too, as long as they live: who serves the store goes last. After a failure only
  // until each of them has learnt of it.
  void Leave(bool linger);

 private:
  void Watch();
  void Beat();
  // What a rank of this run has put there; nullopt where nobody has, or another program.
  std::optional<std::string> Told(const std::string& key);
  std::string Beats(int rank);  // another one's count
  std::string SilentRanks(bool late);
  void Learn(std::string cause);

  const char* const store_is_gone_;
  const int rank_, size_;
  const absl::Duration beat_;
  const c10::intrusive_ptr<c10d::Store>
      store_;  // a connection of our own, on which nothing waits for a key
  const std::function<void()> hang_up_;

  mutable std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;
  bool left_ = false;
  int64_t beats_ = 0;
  std::string cause_;
  std::string waits_in_;
  std::thread thread_;
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_LIVENESS_H_
