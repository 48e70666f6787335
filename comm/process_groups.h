#ifndef MOONRING_COMM_PROCESS_GROUPS_H_
#define MOONRING_COMM_PROCESS_GROUPS_H_

// The world of ranks: owns the store, the connections and the groups, and closes them in a fixed
// order. Ranks may be connected in three ways:
//
//   between processes   the launcher's sockets or a TCPStore (rendezvous.h). Gloo over TCP, and
//                       NCCL in addition if requested, or Gloo for tensors on a GPU too
//                       (RendezvousOptions::staged)
//   between threads     Gloo over loopback and a store in memory: any number of ranks in one test.
//                       Tensors on a GPU only with MOONRING_EXCHANGE=host
//   alone               one rank, without connections
//
// Gloo binds to loopback if the rendezvous is on loopback; else to the interfaces that
// GLOO_SOCKET_IFNAME names; else to this machine's address on the route to the rendezvous
// (LocalAddressTowards). Creating a group connects every pair of its ranks, once per interface. If
// the run has a key (rendezvous.h), the two ends of each connection prove to each other that they
// have it: one exchange of 32 bytes.
//
// Connecting fails if a rank does not come within the deadline (DEADLINE_EXCEEDED, naming the
// missing ranks), if live ranks cannot connect to each other (after five minutes, or the deadline),
// if two processes have the same rank, and if some ranks are on loopback and others are not.
//
// A rank that fails later must call Abort or end its process: either way all calls of the other
// ranks end within some 9 heartbeats (liveness.h) with an error that names it. A rank that lives
// but does not enter a call is named at the deadline.
//
// Connecting installs a SIGPIPE handler, so that SIGPIPE does not end the process
// (RendezvousOptions::own_process), unless the program has set its own action.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "comm/communicator.h"
#include "comm/store/rendezvous.h"
#include "comm/store/secret.h"

namespace gloo::transport {
class Device;
}

namespace moonring::comm {

class Liveness;
class RankNotes;
struct Group;

class World {
 public:
  static absl::StatusOr<std::shared_ptr<World>> Connect(const RendezvousOptions& options);
  // Connects one rank of a world whose ranks are threads. Each thread calls this function with the
  // same store, and with the same token if any.
  static absl::StatusOr<std::shared_ptr<World>> ConnectThreads(
      c10::intrusive_ptr<c10d::Store> store, int rank, int size, absl::Duration deadline,
      const std::string& token = "");
  static std::shared_ptr<World> Alone();
  ~World();

  int rank() const { return options_.rank; }
  int size() const { return options_.world_size; }

  // The group of all ranks.
  std::shared_ptr<Communicator> communicator() const { return communicator_; }

  // Creates a group of some ranks, given as world ranks in the group's order. Every rank calls it
  // with the same lists in the same order, members or not; returns null to a non-member.
  // INVALID_ARGUMENT for a rank that is out of range or given twice.
  absl::StatusOr<std::shared_ptr<Communicator>> Split(const std::vector<int>& ranks,
                                                      const std::string& name);

  // The channel for text messages from rank to rank outside of any collective (rank_notes.h); null
  // in a world of one rank and after Close().
  std::shared_ptr<RankNotes> notes() const { return notes_; }

  // Total time that this rank has spent in calls on all groups; the rest of its time is its own
  // work. For tensors on a GPU only the time that the host waited counts.
  absl::Duration waited();

  // Announces that this rank has failed and will make no more calls: every other rank's pending and
  // later calls end with an error that contains `reason`.
  void Abort(absl::string_view reason);

  // Ends all ranks' pending and later calls with `cause`, for calls in progress that can never end.
  // May be called from any thread while the world is open.
  void Break(absl::string_view cause);

  // For each rank, the group in whose call it is known to wait, at most one heartbeat old
  // (liveness.h); "" for a rank that waits in none. May be called from any thread while the world
  // is open.
  std::vector<std::string> Waits();

  // Closes the groups, then the store. Later calls on any communicator of this world return
  // FAILED_PRECONDITION. The rank that serves the store waits until the others have closed or died.
  // Idempotent; the destructor calls it.
  void Close();

 private:
  struct Key {};

 public:
  World(Key, RendezvousOptions options) : options_(std::move(options)) {}

 private:
  absl::Status JoinOrAbort(c10::intrusive_ptr<c10d::Store> store,
                           std::vector<std::shared_ptr<gloo::transport::Device>> devices,
                           const std::string& address);
  absl::Status Join(c10::intrusive_ptr<c10d::Store> store,
                    std::vector<std::shared_ptr<gloo::transport::Device>> devices,
                    const std::string& address);
  absl::Status Gather(const std::string& what, const std::vector<int>& ranks,
                      const std::string& mine, std::vector<std::string>* theirs);
  std::string WhatIsWrong(absl::Time blame_from, const std::vector<int>& missing);
  absl::Status Meet(absl::Duration limit, std::function<void()> connect);
  absl::StatusOr<std::shared_ptr<Communicator>> Make(const std::vector<int>& ranks,
                                                     const std::string& name);
  void HangUp();
  void AwaitDevice();

  RendezvousOptions options_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::vector<std::shared_ptr<gloo::transport::Device>> devices_;
  std::set<int> listening_;    // Gloo's sockets, which accept only while a group connects
  std::optional<Secret> key_;  // the run's key; none if anybody may join
  std::shared_ptr<Liveness> liveness_;
  std::shared_ptr<RankNotes> notes_;
  std::shared_ptr<Communicator> communicator_;
  int groups_made_ = 0;
  bool joined_ = false;  // whether all ranks have joined the world
  bool closed_ = false;

  std::mutex mutex_;  // guards groups_ and hung_up_, which liveness's thread uses too
  std::vector<std::shared_ptr<Group>> groups_;
  bool hung_up_ = false;
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_PROCESS_GROUPS_H_
