#include "lua/host/line_channel.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status/status_macros.h"

namespace moonring::lua {
namespace {

absl::Status Gone() { return absl::UnavailableError("another rank of the prompt has ended"); }

absl::Status SendAll(int socket, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(socket, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return Gone();
    bytes += sent;
    size -= sent;
  }
  return absl::OkStatus();
}

absl::Status ReceiveAll(int socket, char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t came = recv(socket, bytes, size, 0);
    if (came < 0 && errno == EINTR) continue;
    if (came <= 0) return Gone();
    bytes += came;
    size -= came;
  }
  return absl::OkStatus();
}

}  // namespace

LineChannel::LineChannel(std::vector<int> sockets) : sockets_(std::move(sockets)) {}

LineChannel::~LineChannel() { Close(); }

void LineChannel::Close() {
  for (const int socket : std::exchange(sockets_, {})) close(socket);
}

absl::StatusOr<std::vector<int>> LineChannel::SocketsFromEnvironment() {
  const char* const text = std::getenv("MOONRING_PROMPT");
  std::vector<int> sockets;
  if (text == nullptr) return sockets;
  for (const absl::string_view word : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    int socket = -1;
    struct stat status {};
    if (!absl::SimpleAtoi(word, &socket) || fstat(socket, &status) != 0 ||
        !S_ISSOCK(status.st_mode)) {
      return absl::InvalidArgumentError(
          absl::StrCat("MOONRING_PROMPT: ", word, " is no socket of the launcher's"));
    }
    sockets.push_back(socket);
  }
  unsetenv("MOONRING_PROMPT");
  return sockets;
}

absl::Status LineChannel::Send(absl::string_view text) {
  for (const int socket : sockets_) {
    const uint64_t size = text.size();
    RETURN_IF_ERROR(SendAll(socket, reinterpret_cast<const char*>(&size), sizeof size));
    RETURN_IF_ERROR(SendAll(socket, text.data(), text.size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> LineChannel::Receive() {
  std::vector<std::string> texts;
  for (const int socket : sockets_) {
    uint64_t size = 0;
    RETURN_IF_ERROR(ReceiveAll(socket, reinterpret_cast<char*>(&size), sizeof size));
    texts.emplace_back(size, '\0');
    RETURN_IF_ERROR(ReceiveAll(socket, texts.back().data(), size));
  }
  return texts;
}

}  // namespace moonring::lua
