#ifndef MOONRING_LUA_PROMPT_RANKS_H_
#define MOONRING_LUA_PROMPT_RANKS_H_

// The ranks of `moonring -n RANKS repl`. Rank 0 reads a line and sends it to the others, each runs
// it, and each says how it went; then comes the next line.
//
//   meshes    Each is a world of its own, over the store that the ranks have from their start: one
//             may be made anew after another is broken, in a different shape too. Ranks find each
//             other by the line and by which mesh of the line it is, so a rank that failed before
//             it made one is not a mesh behind for ever.
//   stuck     A rank that has ended its line (by an error, or because the line asked no more of it)
//             will not come to a collective of that line. Where all other ranks wait in one, nobody
//             computes and nothing more can happen: after kMostLooks looks their calls are ended
//             with an error that says so, on all ranks. The mesh is then broken. The same where
//             Ctrl-C was pressed and all ranks wait.

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
  // Null where this process is alone. FAILED_PRECONDITION for ranks that were started otherwise.
  static absl::StatusOr<std::shared_ptr<PromptRanks>> FromEnvironment();
  ~PromptRanks();

  int rank() const { return options_.rank; }
  int size() const { return options_.world_size; }

  // A line begins: rank 0's Send, the others' Receive (UNAVAILABLE where rank 0 has left).
  absl::Status Send(const std::string& line);
  absl::StatusOr<std::string> Receive();

  // Rank 0: no line comes any more.
  void Leave() { channel_.Close(); }

  // This rank's line is over: the others' Report, rank 0's Gather, which waits for all reports and
  // gives them in the order of ranks from 1.
  absl::Status Report(const std::string& outcome);
  absl::StatusOr<std::vector<std::string>> Gather();

  // As World::Connect, over the ranks' store.
  absl::StatusOr<std::shared_ptr<comm::World>> Connect(comm::RendezvousOptions options);
  // Before the world is closed.
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
  std::vector<int> Over(int64_t line);  // the ranks that have ended it
  std::string WhyStuck();

  const comm::RendezvousOptions options_;
  LineChannel channel_;
  const c10::intrusive_ptr<c10d::Store> store_;
  std::atomic<int64_t> line_ = 0;
  int meshes_ = 0;  // of this line

  std::mutex mutex_;  // of what follows
  std::vector<std::shared_ptr<comm::World>> worlds_;
  bool stop_ = false;
  std::condition_variable stop_changed_;
  std::thread thread_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_PROMPT_RANKS_H_
