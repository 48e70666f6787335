#include "tests/lua/http/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace moonring::testing {

RawClient::RawClient(int port) {
  sockaddr_in place = {};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<uint16_t>(port));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // A test that waits for a lost answer fails instead of waiting for ever.
  const timeval patience = {.tv_sec = 120};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  ended_ = connect(socket_, reinterpret_cast<sockaddr*>(&place), sizeof place) != 0;
}

bool RawClient::Send(absl::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(sent);
  }
  return true;
}

bool RawClient::ReadSome() {
  if (ended_) return false;
  static constexpr size_t kMost = size_t{256} << 10;
  const size_t before = buffer_.size();
  buffer_.resize(before + kMost);
  const ssize_t got = recv(socket_, buffer_.data() + before, kMost, 0);
  buffer_.resize(before + std::max<ssize_t>(got, 0));
  ended_ = got <= 0;
  return !ended_;
}

std::string RawClient::ReadLine() {
  size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!ReadSome()) return "";
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

std::string RawClient::ReadBytes(size_t count) {
  buffer_.reserve(count + 1);
  while (buffer_.size() < count && ReadSome()) {
  }
  std::string bytes = buffer_.substr(0, count);
  buffer_.erase(0, count);
  return bytes;
}

RawAnswer RawClient::Read() {
  RawAnswer answer;
  const std::string first = ReadLine();
  if (!absl::StartsWith(first, "HTTP/1.1 ")) return {};
  answer.status = std::atoi(first.c_str() + 9);
  for (std::string line = ReadLine(); !line.empty(); line = ReadLine()) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) return {};
    answer.headers[absl::AsciiStrToLower(line.substr(0, colon))] = line.substr(colon + 2);
  }
  if (answer.headers.count("transfer-encoding") != 0) {
    size_t size = 0;
    do {
      uint64_t parsed = 0;
      if (!absl::SimpleHexAtoi(ReadLine(), &parsed)) return {};
      size = parsed;
      answer.body += ReadBytes(size);
      ReadLine();
    } while (size > 0);
  } else if (answer.headers.count("content-length") != 0) {
    const size_t size = std::stoull(answer.headers["content-length"]);
    answer.body = ReadBytes(size);
    if (answer.body.size() < size) return {};
  }
  return answer;
}

std::string RawClient::ReadAll() {
  while (ReadSome()) {
  }
  return std::move(buffer_);
}

void RawClient::ShutDownOutput() const { shutdown(socket_, SHUT_WR); }

void RawClient::Reset() {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  Close();
}

void RawClient::Close() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

std::string PostText(absl::string_view target, absl::string_view body, absl::string_view headers) {
  return absl::StrCat("POST ", target,
                      " HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", body.size(), "\r\n",
                      headers, "\r\n", body);
}

std::string GetText(absl::string_view target, absl::string_view headers) {
  return absl::StrCat("GET ", target, " HTTP/1.1\r\nHost: localhost\r\n", headers, "\r\n");
}

}  // namespace moonring::testing
