#ifndef MOONRING_COMM_STORE_RENDEZVOUS_H_
#define MOONRING_COMM_STORE_RENDEZVOUS_H_

// Where the ranks of one run find each other: from the launcher's environment to a key-value store
// that all of them see.
//
// The environment that is read; torchrun's variables come before Slurm's:
//
//   RANK, WORLD_SIZE, MASTER_ADDR,     torchrun, Kubernetes' operators, or set by hand.
//   MASTER_PORT, [LOCAL_RANK],
//   [LOCAL_WORLD_SIZE]
//   TORCHELASTIC_USE_AGENT_STORE=True  torchrun serves the store: rank 0 is a client of it too.
//   SLURM_PROCID,                      srun with several tasks (an sbatch script without srun is
//   SLURM_STEP_NUM_TASKS,              one process). The address is the step's first node; the port
//   [SLURM_LOCALID]                    is made of job and step. MASTER_ADDR, MASTER_PORT override.
//   MOONRING_STORE                     from `moonring -n`: inherited sockets, no address.
//   MOONRING_TOKEN                     a secret, the same for every rank of a run.
//   MOONRING_EXCHANGE                  by what tensors on GPUs go from rank to rank: nccl (the
//                                      default; a GPU a rank), or host, through the host's memory
//                                      and Gloo: then ranks may share a GPU.
//
// What another user of the machine can do (over several machines: whoever reaches rank 0):
//
//   moonring -n   The store has no port and no name (private_store.h): nobody else reads or writes
//                 it, and the ranks' key goes through it. Gloo listens on loopback, and only while
//                 a group connects (listening_sockets.h). A kernel without TCP's MD5 signatures
//                 cannot shut that door: there it stays open until the run ends, and so does what
//                 is left (below).
//   a token       The store is LibTorch's TCPStore, served by rank 0 or by torchrun. Its values are
//                 signed (signed_store.h): others can read them, and cannot make one that counts.
//                 One who overwrites a value before the ranks have met ends the run, by a message;
//                 after that the run goes on.
//   both          Each new connection between ranks proves by a signature that the other side
//                 knows the run's key. A group that meets one which cannot is refused: nobody joins
//                 a run or feeds a rank.
//   what is left  One who connects first while a group connects can end the run, by a message or a
//                 crash, or hold it up until the deadline. One who fills or deletes the TCPStore
//                 can end it. Nothing is encrypted. NCCL's own connections are not signed. A token
//                 used for several runs lets an earlier run's values count: make one for each run.
//   no token      Several processes without the launcher: whoever reaches the port can do all of
//                 the above, as with PyTorch.
//
// Where the TCPStore of rank 0 listens, by MASTER_ADDR:
//
//   localhost, 127.0.0.0/8, ::1   there
//   an address of its machine     there
//   0.0.0.0, ::                   on every interface
//   another address               on every interface: a way to the machine that begins elsewhere (a
//                                 Service of Kubernetes, a mapped port)
//   a name                        as its address. On every interface where it has several, and
//                                 where all of them are loopback (as Debian's /etc/hosts has it for
//                                 the machine's own name), since other machines know it otherwise:
//                                 then not if the run is on one machine alone, as far as
//                                 LOCAL_WORLD_SIZE or SLURM_STEP_NUM_NODES tell

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
  // Of the rendezvous and of every later call on a group. A dead rank is noticed within seconds
  // whatever it is; this one bounds how long a living rank is waited for.
  absl::Duration deadline = absl::Minutes(10);
  int local_rank = 0;        // among the ranks of this machine: which GPU is ours
  bool one_machine = false;  // has all ranks, as its launcher says; false: nothing is known of that
  bool serves_store = true;  // false: another process serves it, rank 0 is a client
  std::string
      attempt;        // keeps the keys of a restarted run apart where the store outlives the ranks
  std::string token;  // signs the store's values and the connections; "": nothing is signed
  // In place of address and port: rank 0's ends of the others' sockets, or another rank's own
  // (private_store.h).
  std::vector<int> store_sockets;
  bool own_process =
      true;  // false: its signals are someone else's, who sees to it that SIGPIPE does not end it
  bool cuda = false;    // groups for tensors on GPUs too (NCCL); needs --config=cuda
  bool staged = false;  // those go through the host's memory in place of NCCL
  // A store that is open already, in place of one that is opened by the above. Null: none.
  c10::intrusive_ptr<c10d::Store> store;
  // Asked while ranks are waited for, with those that have not come: why the meeting is off, ""
  // where it is not. Empty: nobody is asked.
  std::function<std::string(const std::vector<int>& missing)> called_off;
};

// nullopt where the environment names no ranks. INVALID_ARGUMENT where it contradicts itself,
// naming the variable.
absl::StatusOr<std::optional<RendezvousOptions>> RendezvousFromEnvironment();

// The same over any lookup, which gives nullptr for what is not set.
absl::StatusOr<std::optional<RendezvousOptions>> RendezvousFrom(
    const std::function<const char*(const char*)>& lookup);

// Whether MOONRING_EXCHANGE asks for the host's memory. INVALID_ARGUMENT for a word it does not
// know.
absl::StatusOr<bool> StagedFrom(const std::function<const char*(const char*)>& lookup);

// Opens (rank 0: serves) the store. ALREADY_EXISTS where the port is taken, UNAVAILABLE where
// nobody serves it in time, FAILED_PRECONDITION where the launcher's sockets have been used up.
absl::StatusOr<c10::intrusive_ptr<c10d::Store>> OpenStore(const RendezvousOptions& options);

// The address of this machine on the way to `address`, by the routing table: what peers can reach
// us at. Nothing is sent. For 0.0.0.0 and ::, which lead nowhere, that of the first interface that
// is up and not loopback, or loopback where there is none.
absl::StatusOr<std::string> LocalAddressTowards(const std::string& address, int port);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_STORE_RENDEZVOUS_H_
