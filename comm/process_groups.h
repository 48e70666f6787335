#ifndef MOONRING_COMM_PROCESS_GROUPS_H_
#define MOONRING_COMM_PROCESS_GROUPS_H_

// The world of ranks: it owns the store, the connections and the groups, and closes them in one
// order.
//
//   between processes   the launcher's sockets or a TCPStore (rendezvous.h); Gloo over TCP, and
//                       NCCL beside it where asked for, or Gloo for tensors on a GPU too
//                       (RendezvousOptions::staged)
//   between threads     Gloo over loopback and a store in memory: any number of ranks in one test.
//                       Tensors on a GPU with MOONRING_EXCHANGE=host only
//   alone               nothing at all
//
// Gloo binds to loopback where the rendezvous is on loopback, else to the interfaces that
// GLOO_SOCKET_IFNAME names, else to the address on the way to the rendezvous (LocalAddressTowards).
// Making a group connects every pair of its ranks, once for each interface. Where the run has a key
// (rendezvous.h) each end of a connection shows the other that it has it: one exchange of 32 bytes.
//
// What fails: a rank that does not come within the deadline (DEADLINE_EXCEEDED, naming the missing
// ones), two processes of one rank, ranks on loopback and others not. A rank that fails must say so
// (Abort) or end its process: either way all others' calls end within seconds with an error that
// names it (liveness.h); a rank that lives and does not come to a call is named at the deadline.
// Where ranks meet, SIGPIPE no longer ends the process (RendezvousOptions::own_process), unless the
// program has said what it does.

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
  // One rank of a world of threads: each calls it with the same store, and with the same token if
  // any.
  static absl::StatusOr<std::shared_ptr<World>> ConnectThreads(
      c10::intrusive_ptr<c10d::Store> store, int rank, int size, absl::Duration deadline,
      const std::string& token = "");
  static std::shared_ptr<World> Alone();
  ~World();

  int rank() const { return options_.rank; }
  int size() const { return options_.world_size; }

  // The group of all ranks.
  std::shared_ptr<Communicator> communicator() const { return communicator_; }

  // A group of some ranks (of the world, in the group's order). Every rank calls it with the same
  // lists in the same order, members or not; null for a non-member. INVALID_ARGUMENT for a rank out
  // of range or twice.
  absl::StatusOr<std::shared_ptr<Communicator>> Split(const std::vector<int>& ranks,
                                                      const std::string& name);

  // Texts from rank to rank outside of any collective; null in a world of one, and once closed.
  std::shared_ptr<RankNotes> notes() const { return notes_; }

  // In calls on all groups so far: the rest of a time span was this rank's own work. On a GPU only
  // what the host waited for.
  absl::Duration waited();

  // This rank fails and will make no more calls: every other rank's pending and later calls end
  // with `reason`.
  void Abort(absl::string_view reason);

  // Calls that are under way can never end: all ranks' pending and later calls end with `cause`.
  // Any thread, while the world is open.
  void Break(absl::string_view cause);

  // By rank, the group in whose call it is known to wait, as late as a beat (liveness.h); "" of one
  // that waits in none. Any thread, while the world is open.
  std::vector<std::string> Waits();

  // Ends the groups, then the store. Later calls on any communicator of this world give
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
  std::string WhatIsWrong(absl::Time asks, const std::vector<int>& missing);
  absl::Status Meet(std::function<void()> connect);
  absl::StatusOr<std::shared_ptr<Communicator>> Make(const std::vector<int>& ranks,
                                                     const std::string& name);
  void HangUp();
  void AwaitDevice();

  RendezvousOptions options_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::vector<std::shared_ptr<gloo::transport::Device>> devices_;
  std::set<int> listening_;    // Gloo's sockets, whose doors are open while a group connects
  std::optional<Secret> key_;  // of this run; none where anybody may join
  std::shared_ptr<Liveness> liveness_;
  std::shared_ptr<RankNotes> notes_;
  std::shared_ptr<Communicator> communicator_;
  int groups_made_ = 0;
  bool joined_ = false;  // every rank has come once
  bool closed_ = false;

  std::mutex mutex_;  // of groups_ and hung_up_, which liveness's thread uses too
  std::vector<std::shared_ptr<Group>> groups_;
  bool hung_up_ = false;
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_PROCESS_GROUPS_H_
