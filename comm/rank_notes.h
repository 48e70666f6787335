#ifndef MOONRING_COMM_RANK_NOTES_H_
#define MOONRING_COMM_RANK_NOTES_H_

// Short text messages that one rank leaves for another outside of any collective, used by threads
// that run in parallel to training (trainer/checkpoint/checkpoint_publisher.h). They use a separate
// connection to the world's store. Any thread may call; each call ends within seconds.

#include <optional>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "absl/status/status.h"

namespace moonring::comm {

class RankNotes {
 public:
  explicit RankNotes(const c10::intrusive_ptr<c10d::Store>& store);

  // Stores `text` under `key`. Returns the store's error, for example UNAVAILABLE if the rank that
  // serves the store has ended.
  absl::Status Leave(const std::string& key, const std::string& text);

  // Returns and deletes the text under `key`; nullopt if there is none or the store cannot be
  // reached.
  std::optional<std::string> Take(const std::string& key);

 private:
  const c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_RANK_NOTES_H_
