#ifndef MOONRING_LUA_PROMPT_RANKS_H_
#define MOONRING_LUA_PROMPT_RANKS_H_

// The ranks of `moonring -n RANKS repl`. Rank 0 reads a line and sends it to the others. Each rank
// runs it and reports its outcome; then the next line is read.
//
//   meshes    Each mesh is a new world over the store that the ranks have from their start. After
//             one is broken, another can be created, also with another shape. Ranks identify a mesh
//             by the line and its number within the line, so a rank that failed before it created
//             one does not stay out of step.
//   stuck     A rank that has ended its line (by an error, or because it had nothing more to do)
//             will not join a collective of that line. If all other ranks wait in one, no rank can
//             make progress: after kMostLooks checks their calls are ended with an error that says
//             so, on all ranks, and the mesh is broken. The same if Ctrl-C was pressed and all
//             ranks wait.

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
#include "lua/line_channel.h"

namespace moonring::lua {

class PromptRanks {
 public:
  // Returns null for a single process. FAILED_PRECONDITION for ranks that were started in another
  // way.
  static absl::StatusOr<std::shared_ptr<PromptRanks>> FromEnvironment();
  ~PromptRanks();

  int rank() const { return options_.rank; }
  int size() const { return options_.world_size; }

  // Starts a line: Send on rank 0, Receive on the others (UNAVAILABLE if rank 0 has left).
  absl::Status Send(const std::string& line);
  absl::StatusOr<std::string> Receive();

  // Rank 0: announces that no more lines follow.
  void Leave() { channel_.Close(); }

  // Ends a line on this rank: Report on the other ranks, Gather on rank 0, which waits for all
  // reports and returns them in the order of ranks from 1.
  absl::Status Report(const std::string& outcome);
  absl::StatusOr<std::vector<std::string>> Gather();

  // Connects as World::Connect does, over the ranks' store.
  absl::StatusOr<std::shared_ptr<comm::World>> Connect(comm::RendezvousOptions options);
  // Call this before a world is closed.
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
  std::vector<int> Over(int64_t line);  // ranks that have ended it
  std::string WhyStuck();

  const comm::RendezvousOptions options_;
  LineChannel channel_;
  const c10::intrusive_ptr<c10d::Store> store_;
  std::atomic<int64_t> line_ = 0;
  int meshes_ = 0;  // of this line

  std::mutex mutex_;  // guards the following members
  std::vector<std::shared_ptr<comm::World>> worlds_;
  bool stop_ = false;
  std::condition_variable stop_changed_;
  std::thread thread_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_PROMPT_RANKS_H_
