#ifndef MOONRING_LUA_HOST_PROMPT_RANKS_H_
#define MOONRING_LUA_HOST_PROMPT_RANKS_H_

// The ranks of the interactive prompt `moonring -n RANKS repl`. Rank 0 reads a line and sends it to
// the other ranks. Each rank runs the line and reports its outcome; then the next line is read.
//
//   meshes    Each mesh that a line creates connects the ranks once more, over the rendezvous store
//             that they have from their start. After a mesh is broken, another can be created, also
//             with another shape. Ranks identify a mesh by the number of the line and the mesh's
//             number within the line. So a rank that failed before it created a mesh uses the same
//             identifiers as the others from the next line on.
//   stuck     A rank that has finished its line (by an error, or because it had nothing more to do)
//             will not join a collective of that line. If all other ranks wait in a collective, no
//             rank can make progress: after kMostLooks checks their calls end with an error that
//             says so, on all ranks, and the mesh is broken. The same happens if Ctrl-C was pressed
//             and all ranks wait.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/process_groups.h"
#include "comm/store/rendezvous.h"
#include "lua/host/line_channel.h"

namespace moonring::lua {

class PromptRanks {
 public:
  // Connects to the other ranks; null for a single process. FAILED_PRECONDITION if the ranks were
  // not started by Moonring's launcher (-n).
  static absl::StatusOr<std::shared_ptr<PromptRanks>> FromEnvironment();
  ~PromptRanks();

  int rank() const { return options_.rank; }
  int size() const { return options_.world_size; }

  // Begins a line: rank 0 calls Send, the other ranks Receive (UNAVAILABLE if rank 0 has left).
  absl::Status Send(const std::string& line);
  absl::StatusOr<std::string> Receive();

  // Rank 0: announces that there are no more lines.
  void Leave() { channel_.Close(); }

  // End a line on this rank: the other ranks call Report. Rank 0 calls Gather, which waits for all
  // reports and returns them in the order of ranks from 1.
  absl::Status Report(const std::string& outcome);
  absl::StatusOr<std::vector<std::string>> Gather();

  // Connects the ranks as World::Connect does, over the rendezvous store that they have from their
  // start.
  absl::StatusOr<std::shared_ptr<comm::World>> Connect(comm::RendezvousOptions options);
  // Stops watching a world that Connect returned. Call this before the world is closed.
  void Forget(const std::shared_ptr<comm::World>& world);

 private:
  struct Key {};

 public:
  PromptRanks(Key, comm::RendezvousOptions options, std::vector<int> sockets,
              c10::intrusive_ptr<c10d::Store> store);

 private:
  void Begin();
  void End();
  void Watch();
  std::vector<int> Over(int64_t line);  // ranks that have finished the line
  std::string WhyStuck();

  const comm::RendezvousOptions options_;
  LineChannel channel_;
  const c10::intrusive_ptr<c10d::Store> store_;
  std::atomic<int64_t> line_ = 0;
  int meshes_ = 0;  // meshes created in this line

  std::mutex mutex_;  // guards the following members
  std::vector<std::shared_ptr<comm::World>> worlds_;
  bool stop_ = false;
  std::condition_variable stop_changed_;
  std::thread thread_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HOST_PROMPT_RANKS_H_
