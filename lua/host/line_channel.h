#ifndef MOONRING_LUA_HOST_LINE_CHANNEL_H_
#define MOONRING_LUA_HOST_LINE_CHANNEL_H_

// Messages between rank 0 and the other ranks of an interactive prompt, over socket pairs that the
// launcher creates and names in the environment variable MOONRING_PROMPT (lua/host/launcher.h). No
// call has a deadline, because the user may wait for hours. If the process at the other end has
// exited, reading returns UNAVAILABLE.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::lua {

class LineChannel {
 public:
  // `sockets`: on rank 0, one socket for each other rank, in rank order from 1; on another rank,
  // its only socket. Takes ownership.
  explicit LineChannel(std::vector<int> sockets);
  ~LineChannel();
  LineChannel(const LineChannel&) = delete;
  LineChannel& operator=(const LineChannel&) = delete;

  // Returns the sockets named in MOONRING_PROMPT and sets close-on-exec on them. Returns an empty
  // list if the variable is not set.
  static absl::StatusOr<std::vector<int>> SocketsFromEnvironment();

  // Closes the sockets. The other ranks then read end of file.
  void Close();

  // Sends a message: rank 0 to all other ranks, another rank to rank 0.
  absl::Status Send(absl::string_view text);
  // Receives one message from each connected rank, in rank order.
  absl::StatusOr<std::vector<std::string>> Receive();

 private:
  std::vector<int> sockets_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HOST_LINE_CHANNEL_H_
