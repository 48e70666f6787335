#include "comm/store/loopback.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonring::comm {
namespace {

TEST(LoopbackTest, ThisMachinesOwnAddresses) {
  for (const char* host : {"localhost", "127.0.0.1", "127.1", "127.255.0.9", "::1", "[::1]"})
    EXPECT_TRUE(IsLoopback(host)) << host;
}

// Names that only begin like a loopback address are ordinary domains and do not bypass a proxy.
TEST(LoopbackTest, OthersAreNone) {
  for (const char* host : {"", "127.example.org", "localhost.example.org", "128.0.0.1", "::11",
                           "10.127.0.1", "[::1", "0.0.0.0"})
    EXPECT_FALSE(IsLoopback(host)) << host;
}

}  // namespace
}  // namespace moonring::comm
