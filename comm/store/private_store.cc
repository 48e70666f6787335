#include "comm/store/private_store.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include <c10/util/Exception.h>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status/torch_status.h"

namespace moonring::comm {
namespace {

using Parts = std::vector<std::string>;

// The format of a message: the number of strings, then the length and bytes of each. A request's
// first string is its operation. An answer's first string is "" or an error message; its second is
// the result.
constexpr char kSet[] = "set", kGet[] = "get", kCompareSet[] = "compare_set", kAdd[] = "add",
               kDelete[] = "delete", kCheck[] = "check", kCount[] = "count", kClone[] = "clone";

std::string Encoded(const Parts& parts) {
  std::string text;
  const auto append = [&](uint32_t number) {
    text.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  append(parts.size());
  for (const std::string& part : parts) {
    append(part.size());
    text += part;
  }
  return text;
}

// Removes the first message from `text` and returns it; nullopt if it is not complete yet.
std::optional<Parts> TakeMessage(std::string& text) {
  size_t at = 0;
  const auto number = [&](uint32_t* value) {
    if (text.size() - at < sizeof *value) return false;
    std::memcpy(value, text.data() + at, sizeof *value);
    at += sizeof *value;
    return true;
  };
  uint32_t count = 0, size = 0;
  if (!number(&count)) return std::nullopt;
  Parts parts;
  for (; parts.size() < count; at += size) {
    if (!number(&size) || text.size() - at < size) return std::nullopt;
    parts.push_back(text.substr(at, size));
  }
  text.erase(0, at);
  return parts;
}

// Buffer for one file descriptor that is sent with a message.
union Passing {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

// Like sendmsg, with the descriptor `passed` attached unless it is -1.
ssize_t SendSome(int socket, const char* bytes, size_t size, int flags, int passed) {
  iovec part{const_cast<char*>(bytes), size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  Passing passing{};
  if (passed >= 0) {
    message.msg_control = &passing;
    message.msg_controllen = sizeof passing;
    passing.header.cmsg_len = CMSG_LEN(sizeof(int));
    passing.header.cmsg_level = SOL_SOCKET;
    passing.header.cmsg_type = SCM_RIGHTS;
    std::memcpy(CMSG_DATA(&passing.header), &passed, sizeof passed);
  }
  return sendmsg(socket, &message, flags | MSG_NOSIGNAL);
}

// Like recvmsg; stores an attached descriptor in `passed`.
ssize_t ReceiveSome(int socket, char* bytes, size_t size, int flags, int* passed) {
  iovec part{bytes, size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  Passing passing{};
  message.msg_control = &passing;
  message.msg_controllen = sizeof passing;
  const ssize_t received = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  const cmsghdr* header = received > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS)
    std::memcpy(passed, CMSG_DATA(header), sizeof *passed);
  return received;
}

bool IsForLater(ssize_t moved) { return moved < 0 && (errno == EAGAIN || errno == EINTR); }

std::string Text(const std::vector<uint8_t>& bytes) {
  return std::string(bytes.begin(), bytes.end());
}
std::vector<uint8_t> Bytes(const std::string& text) {
  return std::vector<uint8_t>(text.begin(), text.end());
}

int64_t Number(const std::string& text) {
  int64_t number = 0;
  TORCH_CHECK(absl::SimpleAtoi(text, &number), "'", text, "' from the store: expected a number");
  return number;
}

}  // namespace

void MakeSocketPair(int (&ends)[2]) {
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) return;
  throw base::StatusError(absl::ResourceExhaustedError(
      absl::StrCat("no socket pair for the ranks' store: ", std::strerror(errno))));
}

struct ServedStore::Connection {
  explicit Connection(int opened) : socket(opened) {}
  ~Connection() {
    close(socket);
    if (passed >= 0) close(passed);
  }
  const int socket;
  int passed = -1;  // descriptor attached to an incomplete message
  std::string in, out;
};

ServedStore::ServedStore(std::vector<int> sockets) : stop_(eventfd(0, EFD_CLOEXEC)) {
  for (const int socket : sockets) connections_.push_back(std::make_unique<Connection>(socket));
  TORCH_CHECK(stop_ >= 0, "no eventfd for the ranks' store: ", std::strerror(errno));
  thread_ = std::thread([this] {
    // An error while answering one message (e.g. out of memory) does not end other ranks' calls.
    while (!base::TryTorch([this] { Serve(); }).ok())
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  });
}

ServedStore::~ServedStore() {
  const uint64_t one = 1;
  (void)!write(stop_, &one, sizeof one);
  thread_.join();
  close(stop_);
}

void ServedStore::Serve() {
  while (true) {
    std::vector<pollfd> sockets = {{stop_, POLLIN, 0}};
    for (const auto& connection : connections_) {
      sockets.push_back({connection->socket,
                         static_cast<short>(connection->out.empty() ? POLLIN : POLLIN | POLLOUT),
                         0});
    }
    if (poll(sockets.data(), sockets.size(), -1) < 0) continue;
    if (sockets[0].revents != 0) return;
    for (size_t i = 1; i < sockets.size(); ++i) {  // Receive() adds connections after these
      Connection& connection = *connections_[i - 1];
      if (sockets[i].revents == 0 || Receive(connection)) continue;
      sockets[i].fd = -1;
    }
    for (size_t i = sockets.size(); --i > 0;) {
      if (sockets[i].fd < 0) connections_.erase(connections_.begin() + static_cast<int64_t>(i) - 1);
    }
  }
}

// Reads what has arrived, and sends the answers as far as possible without blocking. Returns false
// if the other end is closed.
bool ServedStore::Receive(Connection& connection) {
  char buffer[65536];
  const ssize_t size =
      ReceiveSome(connection.socket, buffer, sizeof buffer, MSG_DONTWAIT, &connection.passed);
  if (size == 0 || (size < 0 && !IsForLater(size))) return false;
  if (size > 0) connection.in.append(buffer, size);
  while (const std::optional<Parts> request = TakeMessage(connection.in)) {
    connection.out += Encoded(Answer(*request, std::exchange(connection.passed, -1)));
  }
  if (connection.out.empty()) return true;
  const ssize_t sent =
      SendSome(connection.socket, connection.out.data(), connection.out.size(), MSG_DONTWAIT, -1);
  if (sent > 0) connection.out.erase(0, sent);
  return sent > 0 || IsForLater(sent);
}

Parts ServedStore::Answer(const Parts& request, int passed) {
  try {
    const std::string& operation = request.at(0);
    const std::string& key = request.size() > 1 ? request[1] : operation;
    if (operation == kClone) {
      // (The kernel drops a descriptor for which this process has no room: MSG_CTRUNC.)
      if (passed < 0)
        return {"rank 0 has no descriptor left for another connection (ulimit -n)", ""};
      connections_.push_back(std::make_unique<Connection>(passed));
      return {"", ""};
    }
    if (operation == kSet) return (HashStore::set(key, Bytes(request.at(2))), Parts{"", ""});
    if (operation == kGet && !HashStore::check({key}))
      return {absl::StrCat("'", key, "' is no longer set"), ""};  // get() would wait for it
    if (operation == kGet) return {"", Text(HashStore::get(key))};
    if (operation == kCompareSet)
      return {"", Text(HashStore::compareSet(key, Bytes(request.at(2)), Bytes(request.at(3))))};
    if (operation == kAdd) return {"", absl::StrCat(HashStore::add(key, Number(request.at(2))))};
    if (operation == kDelete) return {"", absl::StrCat(HashStore::deleteKey(key))};
    if (operation == kCheck)
      return {"", absl::StrCat(HashStore::check(Parts(request.begin() + 1, request.end())))};
    if (operation == kCount) return {"", absl::StrCat(HashStore::getNumKeys())};
    return {absl::StrCat("no operation '", operation, "'"), ""};
  } catch (const std::exception& exception) {
    return {std::string(base::StatusOfException(exception).message()), ""};
  }
}

SocketStore::SocketStore(int socket) : socket_(socket) {}

SocketStore::~SocketStore() { close(socket_); }

std::string SocketStore::Ask(Parts request, int passed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto check = [](ssize_t moved) {
    if (moved == 0 || (moved < 0 && errno != EINTR))
      throw base::StatusError(absl::UnavailableError("the rank that serves the store has ended"));
    return moved < 0 ? 0 : moved;
  };
  const std::string text = Encoded(request);
  for (size_t sent = 0; sent < text.size();)
    sent += check(
        SendSome(socket_, text.data() + sent, text.size() - sent, 0, sent == 0 ? passed : -1));
  std::string answer;
  while (true) {
    char buffer[65536];
    int unused = -1;
    answer.append(buffer, check(ReceiveSome(socket_, buffer, sizeof buffer, 0, &unused)));
    const std::optional<Parts> parts = TakeMessage(answer);
    if (!parts.has_value()) continue;
    TORCH_CHECK(parts->size() == 2 && parts->front().empty(),
                "the store: ", parts->empty() ? "no answer" : parts->front());
    return parts->back();
  }
}

c10::intrusive_ptr<c10d::Store> SocketStore::clone() {
  int ends[2];
  MakeSocketPair(ends);
  auto store = c10::make_intrusive<SocketStore>(ends[0]);
  store->setTimeout(timeout_);
  try {
    Ask({kClone}, ends[1]);
  } catch (...) {
    close(ends[1]);
    throw;
  }
  close(ends[1]);
  return store;
}

void SocketStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  Ask({kSet, key, Text(value)});
}

std::vector<uint8_t> SocketStore::compareSet(const std::string& key,
                                             const std::vector<uint8_t>& expected,
                                             const std::vector<uint8_t>& desired) {
  return Bytes(Ask({kCompareSet, key, Text(expected), Text(desired)}));
}

std::vector<uint8_t> SocketStore::get(const std::string& key) {
  wait({key}, timeout_);
  return Bytes(Ask({kGet, key}));
}

int64_t SocketStore::add(const std::string& key, int64_t value) {
  return Number(Ask({kAdd, key, absl::StrCat(value)}));
}

bool SocketStore::deleteKey(const std::string& key) { return Number(Ask({kDelete, key})) != 0; }

bool SocketStore::check(const std::vector<std::string>& keys) {
  Parts request = {kCheck};
  request.insert(request.end(), keys.begin(), keys.end());
  return Number(Ask(std::move(request))) != 0;
}

int64_t SocketStore::getNumKeys() { return Number(Ask({kCount})); }

// Polls, so that the server need not keep pending waits, which it would have to drop when their
// rank dies.
void SocketStore::wait(const std::vector<std::string>& keys,
                       const std::chrono::milliseconds& timeout) {
  const absl::Time end = absl::Now() + absl::FromChrono(timeout);
  for (absl::Duration pause = absl::Milliseconds(1); !check(keys);
       pause = std::min(2 * pause, absl::Milliseconds(20))) {
    TORCH_CHECK_WITH(DistStoreError, absl::Now() < end, "timed out: nobody has set '",
                     keys.empty() ? "" : keys.front(), "' in the store");
    absl::SleepFor(pause);
  }
}

}  // namespace moonring::comm
