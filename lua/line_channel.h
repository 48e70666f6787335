#ifndef MOONRING_LUA_LINE_CHANNEL_H_
#define MOONRING_LUA_LINE_CHANNEL_H_

// What a prompt's ranks hear of rank 0 and answer it: texts, over the socket pairs that the
// launcher makes for them (MOONRING_PROMPT; lua/launcher.h). No call has a deadline, for a person
// thinks for an hour. Where the other process has ended, reading gives UNAVAILABLE.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::lua {

class LineChannel {
 public:
  // `sockets`: rank 0's ends, in the order of ranks from 1; or another rank's one. Owns them.
  explicit LineChannel(std::vector<int> sockets);
  ~LineChannel();
  LineChannel(const LineChannel&) = delete;
  LineChannel& operator=(const LineChannel&) = delete;

  // The sockets that MOONRING_PROMPT names, closed in what this process starts; none where it is
  // not set.
  static absl::StatusOr<std::vector<int>> SocketsFromEnvironment();

  // The others hear the end.
  void Close();

  // To all at the other ends.
  absl::Status Send(absl::string_view text);
  // One of each, in order.
  absl::StatusOr<std::vector<std::string>> Receive();

 private:
  std::vector<int> sockets_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_LINE_CHANNEL_H_
