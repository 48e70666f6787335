#ifndef MOONRING_COMM_RENDEZVOUS_H_
#define MOONRING_COMM_RENDEZVOUS_H_

// Where the ranks of one run find each other: from the launcher's environment to a key-value store that all of them see.
//
// torchrun's variables come first, Slurm's after:
//   RANK WORLD_SIZE MASTER_ADDR MASTER_PORT [LOCAL_RANK]       torchrun, Kubernetes' operators, by hand
//   TORCHELASTIC_USE_AGENT_STORE=True                          torchrun serves the store itself: rank 0 is a client too
//   SLURM_PROCID SLURM_STEP_NUM_TASKS [SLURM_LOCALID]          srun with several tasks; an sbatch script without srun is one
//                                                              process. The address is the step's first node, the port
//                                                              is made of job and step; MASTER_ADDR, MASTER_PORT override.
// The store is LibTorch's TCPStore, served by rank 0. It knows no authentication: for a loopback address it listens on
// loopback only, else on every interface, as torchrun's does.

#include <functional>
#include <optional>
#include <string>

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
  bool own_process = true;   // false: its signals are someone else's, who sees to it that SIGPIPE does not end it
  bool cuda = false;         // groups for tensors on GPUs too (NCCL); needs --config=cuda
};

// nullopt where the environment names no ranks. INVALID_ARGUMENT where it contradicts itself, naming the variable.
absl::StatusOr<std::optional<RendezvousOptions>> RendezvousFromEnvironment();

// The same over any lookup, which gives nullptr for what is not set.
absl::StatusOr<std::optional<RendezvousOptions>> RendezvousFrom(const std::function<const char*(const char*)>& lookup);

// Opens (rank 0: serves) the store. ALREADY_EXISTS where the port is taken, UNAVAILABLE where nobody serves it in time.
absl::StatusOr<c10::intrusive_ptr<c10d::Store>> OpenStore(const RendezvousOptions& options);

// "localhost", 127.0.0.0/8 or ::1.
bool IsLoopback(const std::string& address);

// The address of this machine on the way to `address`, by the routing table: what peers can reach us at. Nothing is sent.
absl::StatusOr<std::string> LocalAddressTowards(const std::string& address, int port);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_RENDEZVOUS_H_
