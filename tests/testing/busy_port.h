#ifndef MOONRING_TESTS_TESTING_BUSY_PORT_H_
#define MOONRING_TESTS_TESTING_BUSY_PORT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ctime>
#include <random>
#include <string>

#include "gtest/gtest.h"

namespace moonring::testing {

// A port that is in use while this object is alive.
class BusyPort {
 public:
  BusyPort() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~BusyPort() { close(fd_); }
  std::string port() const { return std::to_string(port_); }

 private:
  int fd_, port_ = 0;
};

// Returns a port that was free a moment ago. It is below 32768, where the kernel's ephemeral ports
// begin, so that connections of other tests do not get it in the meantime.
inline std::string FreePort() {
  // A seed from the process id and the time would not be unique: each sandbox numbers its processes
  // from 1.
  static std::random_device random;
  while (true) {
    const int port = std::uniform_int_distribution<int>(20000, 32000)(random);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(static_cast<uint16_t>(port));
    const bool free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    close(fd);
    if (free) return std::to_string(port);
  }
}

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_BUSY_PORT_H_
