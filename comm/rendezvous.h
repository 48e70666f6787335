#ifndef MOONRING_COMM_RENDEZVOUS_H_
#define MOONRING_COMM_RENDEZVOUS_H_

// Where the ranks of one run find each other: from the launcher's environment to a key-value store
// that all of them see.
//
// torchrun's variables come first, Slurm's after:
//   RANK WORLD_SIZE MASTER_ADDR MASTER_PORT [LOCAL_RANK]       torchrun, Kubernetes' operators, by
//   hand TORCHELASTIC_USE_AGENT_STORE=True                          torchrun serves the store
//   itself: rank 0 is a client too SLURM_PROCID SLURM_STEP_NUM_TASKS [SLURM_LOCALID]          srun
//   with several tasks; an sbatch script without srun is one
//                                                              process. The address is the step's
//                                                              first node, the port is made of job
//                                                              and step; MASTER_ADDR, MASTER_PORT
//                                                              override.
//   MOONRING_STORE                                             the launcher's own (moonring -n):
//   sockets, not an address MOONRING_TOKEN                                             a secret,
//   the same for every rank of a run
//
// Who can do what (another user of the machine; over several machines, whoever reaches rank 0's
// address):
//
//   moonring -n     The store has no port and no name (private_store.h): nobody else reads or
//   writes it, and the ranks' key
//                   goes through it. Gloo listens on loopback, while a group connects and not
//                   longer (listening_sockets.h).
//   a token         LibTorch's TCPStore, served by rank 0 or by torchrun. Its values are signed
//   (signed_store.h): another
//                   can read them, and none of his passes. Who writes over a value before the ranks
//                   have met ends the run with a message; later it goes on.
//   either          Each new connection between ranks shows by a signature of the run's key that it
//   is the rank's; a group
//                   with one that does not is refused. So nobody joins, and nobody feeds a rank.
//   still           Who connects first while a group connects can end the run, by a message or a
//   crash, or hold it up until the
//                   deadline. Who fills or deletes the TCPStore can end it too. Nothing is
//                   encrypted; NCCL's own connections are not signed. A token that serves several
//                   runs lets old values pass again: make one for each run.
//   no token        Several processes without the launcher: whoever reaches the port can do all of
//   it, as with PyTorch.
//
// The TCPStore listens on the address that MASTER_ADDR says: on loopback for one of loopback, on
// every interface for 0.0.0.0, and for a machine's name that the machine itself takes for loopback
// (as Debian's /etc/hosts may say).

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace moonring::comm {

struct RendezvousOptions {
  int rank = 0, world_size = 1;
  std::string address = "127.0.0.1";
  int port = 29500;
  // Of the rendezvous and of every later call on a group. A dead rank is noticed within seconds whatever it is; this one
  // bounds how long a living rank is waited for.
  absl::Duration deadline = absl::Minutes(10);
  int local_rank = 0;        // among the ranks of this machine: which GPU is ours
  bool serves_store = true;  // false: another process serves it, rank 0 is a client
  std::string attempt;       // keeps the keys of a restarted run apart where the store outlives the ranks
  std::string token;         // signs the store's values and the connections; "": nothing is signed
  // In place of address and port: rank 0's ends of the others' sockets, or another rank's own
  // (private_store.h).
  std::vector<int> store_sockets;
  bool own_process = true;   // false: its signals are someone else's, who sees to it that SIGPIPE does not end it
  bool cuda = false;         // groups for tensors on GPUs too (NCCL); needs --config=cuda
};

// nullopt where the environment names no ranks. INVALID_ARGUMENT where it contradicts itself, naming the variable.
absl::StatusOr<std::optional<RendezvousOptions>> RendezvousFromEnvironment();

// The same over any lookup, which gives nullptr for what is not set.
absl::StatusOr<std::optional<RendezvousOptions>> RendezvousFrom(const std::function<const char*(const char*)>& lookup);

// Opens (rank 0: serves) the store. ALREADY_EXISTS where the port is taken, UNAVAILABLE where
// nobody serves it in time, INVALID_ARGUMENT where rank 0's machine does not have the address,
// FAILED_PRECONDITION where the launcher's sockets have been used up.
absl::StatusOr<c10::intrusive_ptr<c10d::Store>> OpenStore(const RendezvousOptions& options);

// "localhost", 127.0.0.0/8 or ::1.
bool IsLoopback(const std::string& address);

// The address of this machine on the way to `address`, by the routing table: what peers can reach us at. Nothing is sent.
absl::StatusOr<std::string> LocalAddressTowards(const std::string& address, int port);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_RENDEZVOUS_H_
