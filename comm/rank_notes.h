#ifndef MOONRING_COMM_RANK_NOTES_H_
#define MOONRING_COMM_RANK_NOTES_H_

// Short texts that one rank leaves for another, outside of any collective: what a thread beside
// training has to say (trainer/checkpoint_publisher.h). They go through a connection of their own
// to the world's store. Any thread may call; each call ends within seconds.

#include <optional>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "absl/status/status.h"

namespace moonring::comm {

class RankNotes {
 public:
  explicit RankNotes(const c10::intrusive_ptr<c10d::Store>& store);

  // Fails as the store does: UNAVAILABLE where the rank that serves it has ended.
  absl::Status Leave(const std::string& key, const std::string& text);

  // What was left under the key, which is free again then; nullopt where nothing was, or where the
  // store cannot be reached.
  std::optional<std::string> Take(const std::string& key);

 private:
  const c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_RANK_NOTES_H_
