#include "lua/report/line_input.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace moonring::lua {

std::optional<std::string> LineInput::TakeBuffered() {
  const size_t end = buffered_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = buffered_.substr(0, end);
  buffered_.erase(0, end + 1);
  return line;
}

std::optional<std::string> LineInput::Take(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  while (true) {
    if (auto line = TakeBuffered()) return line;
    if (ended_) return std::nullopt;
    const std::chrono::duration<double, std::milli> left = until - Clock::now();
    pollfd file = {descriptor_, POLLIN, 0};
    const int ready = poll(&file, 1, static_cast<int>(std::max(0.0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    char bytes[1 << 16];
    const ssize_t came = read(descriptor_, bytes, sizeof bytes);
    if (came < 0 && errno == EINTR) continue;
    if (came <= 0) ended_ = true;
    if (came > 0) buffered_.append(bytes, came);
  }
}

}  // namespace moonring::lua
