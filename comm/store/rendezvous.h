#ifndef MOONRING_COMM_STORE_RENDEZVOUS_H_
#define MOONRING_COMM_STORE_RENDEZVOUS_H_

// Rendezvous: how the ranks of one run find each other, from the launcher's environment variables
// to a key-value store that all of them can reach.
//
// These variables are read; torchrun's take precedence over Slurm's:
//
//   RANK, WORLD_SIZE, MASTER_ADDR,     torchrun, Kubernetes' operators, or set by hand.
//   MASTER_PORT, [LOCAL_RANK],
//   [LOCAL_WORLD_SIZE]
//   TORCHELASTIC_USE_AGENT_STORE=True  torchrun serves the store: rank 0 is a client of it too.
//   SLURM_PROCID,                      srun with several tasks (an sbatch script without srun is
//   SLURM_STEP_NUM_TASKS,              one process). The address is the step's first node; the port
//   [SLURM_LOCALID]                    is computed from job and step. MASTER_ADDR and MASTER_PORT
//                                      override them.
//   [SLURM_STEP_TASKS_PER_NODE,        how many of the ranks share this machine (TasksHere), as
//   SLURM_NODEID]                      LOCAL_WORLD_SIZE says it elsewhere.
//   MOONRING_STORE                     from `moonring -n`: inherited sockets, no address.
//   MOONRING_TOKEN                     a secret, the same for every rank of a run.
//   MOONRING_EXCHANGE                  how tensors on GPUs are sent between ranks: nccl (the
//                                      default; one GPU per rank), or host, through host memory and
//                                      Gloo: then ranks may share a GPU.
//
// What another user of the machine can do (with several machines: anyone who can connect to rank
// 0):
//
//   moonring -n   The store has no port and no name (private_store.h): nobody else can read or
//                 write it, and the ranks' key is exchanged through it. Gloo listens on loopback,
//                 and only while a group connects (listening_sockets.h). A kernel without TCP MD5
//                 signatures cannot block connections at other times: there Gloo's port stays
//                 open until the run ends, with the remaining risks below.
//   a token       The store is LibTorch's TCPStore, served by rank 0 or by torchrun. Its values are
//                 signed (signed_store.h): others can read them, but cannot write a valid one.
//                 Someone who overwrites a value before the ranks have connected ends the run, with
//                 an error message; after that the run is not affected.
//   both          Each new connection between ranks proves by a signature that the other side has
//                 the run's key. A connection that cannot prove it makes the group fail: nobody can
//                 join a run or send data to a rank.
//   what remains  Someone who connects first while a group connects can end the run, with an error
//                 message or a crash, or delay it until the deadline. Someone who fills or deletes
//                 the TCPStore can end it. Nothing is encrypted. NCCL's own connections are not
//                 signed. If a token is used for several runs, values of an earlier run are valid:
//                 create one token per run.
//   no token      Several processes without the launcher: anyone who can connect to the port can do
//                 all of the above, as with PyTorch.
//
// The address on which rank 0's TCPStore listens, depending on MASTER_ADDR:
//
//   localhost, 127.0.0.0/8, ::1   that address
//   an address of its machine     that address
//   0.0.0.0, ::                   every interface
//   another address               every interface: it is forwarded to this machine from elsewhere
//                                 (a Service of Kubernetes, a mapped port)
//   a name                        its address. Every interface if it resolves to several, or only
//                                 to loopback (as Debian's /etc/hosts does for the machine's own
//                                 name), because other machines resolve it differently; but a
//                                 name that resolves to loopback stays on loopback if
//                                 LOCAL_WORLD_SIZE or SLURM_STEP_NUM_NODES show that all ranks are
//                                 on one machine

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
  // Deadline of the rendezvous and of every later call on a group. A dead rank is detected within
  // seconds in any case; the deadline bounds how long a living rank is waited for.
  absl::Duration deadline = absl::Minutes(10);
  int local_rank = 0;        // among the ranks of this machine: selects the GPU
  bool one_machine = false;  // the launcher has all ranks on this machine; false: unknown
  bool serves_store = true;  // false: another process serves it, rank 0 is a client
  std::string attempt;       // separates the keys of restarts if the store outlives the ranks
  std::string token;         // signs the store's values and the connections; "": no signatures
  // If not empty, these sockets are used instead of address and port (private_store.h): rank 0 has
  // one end of each other rank's socket pair, and each other rank has the other end of its own
  // pair.
  std::vector<int> store_sockets;
  bool own_process = true;  // false: the embedding program handles signals, including SIGPIPE
  bool cuda = false;        // also create NCCL groups for tensors on GPUs; needs --config=cuda
  bool staged = false;      // tensors on GPUs use host memory instead of NCCL
  // A store that is already open, used instead of opening one. Null: open one.
  c10::intrusive_ptr<c10d::Store> store;
  // Called with the missing ranks while this rank waits for them. Returns the reason to cancel the
  // wait, or "" to continue. The function may be empty.
  std::function<std::string(const std::vector<int>& missing)> called_off;
};

// nullopt if the environment does not define ranks. INVALID_ARGUMENT, naming the variable, if it is
// inconsistent.
absl::StatusOr<std::optional<RendezvousOptions>> RendezvousFromEnvironment();

// Like RendezvousFromEnvironment, but with any function that looks up a variable; it returns
// nullptr if the variable is not set.
absl::StatusOr<std::optional<RendezvousOptions>> RendezvousFrom(
    const std::function<const char*(const char*)>& lookup);

// The number of ranks that Slurm has started on this machine. nullopt if this process is not one of
// several tasks started by srun, if RANK or WORLD_SIZE replaces Slurm's variables, or if Slurm does
// not say.
std::optional<int> TasksHere(const std::function<const char*(const char*)>& lookup);

// Whether MOONRING_EXCHANGE is "host". INVALID_ARGUMENT for an unknown value.
absl::StatusOr<bool> StagedFrom(const std::function<const char*(const char*)>& lookup);

// Opens the store (rank 0: serves it). ALREADY_EXISTS if the port is in use, UNAVAILABLE if nobody
// serves it in time, FAILED_PRECONDITION if the launcher's sockets have already been used.
absl::StatusOr<c10::intrusive_ptr<c10d::Store>> OpenStore(const RendezvousOptions& options);

// This machine's address on the route to `address`, from the routing table: where peers can reach
// this rank. Nothing is sent. For 0.0.0.0 and ::, which have no route, the address of the first
// interface that is up and not loopback, or loopback if there is none.
absl::StatusOr<std::string> LocalAddressTowards(const std::string& address, int port);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_STORE_RENDEZVOUS_H_
