// Secrets, hosts and origins of requests to a server on this machine.

#include "lua/http/access_check.h"

#include "gtest/gtest.h"

namespace moonring::lua {
namespace {

TEST(AccessCheckTest, ComparesSecrets) {
  EXPECT_TRUE(IsSameSecret("tml-1234", "tml-1234"));
  EXPECT_FALSE(IsSameSecret("tml-1234", "tml-1235"));
  EXPECT_FALSE(IsSameSecret("tml-1234", "Tml-1234"));
  EXPECT_FALSE(IsSameSecret("tml-1234", "tml-123"));
  EXPECT_FALSE(IsSameSecret("tml-1234", "tml-12341"));
  EXPECT_FALSE(IsSameSecret("ab", "abab"));  // the secret repeated
  EXPECT_FALSE(IsSameSecret("tml-1234", ""));
  EXPECT_FALSE(IsSameSecret("", "x"));
}

TEST(AccessCheckTest, KnowsHostsOfThisMachine) {
  for (const char* host : {"localhost", "LocalHost:80", "127.0.0.1", "127.0.0.1:8000",
                           "127.0.0.2:80", "[::1]", "[::1]:8000", "::1"})
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  for (const char* host :
       {"", ":80", "example.org", "localhost.example.org:80", "127.0.0.1.example.org",
        "[::1].example.org", "[::2]", "10.0.0.1", "localhost:80:80", "127.0.0.1@example.org"})
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
}

TEST(AccessCheckTest, KnowsItsOwnOrigin) {
  EXPECT_TRUE(IsOwnOrigin("", "localhost:80"));
  EXPECT_TRUE(IsOwnOrigin("http://localhost:80", "localhost:80"));
  EXPECT_FALSE(IsOwnOrigin("http://localhost:81", "localhost:80"));
  EXPECT_FALSE(IsOwnOrigin("https://localhost:80", "localhost:80"));
  EXPECT_FALSE(IsOwnOrigin("null", "localhost:80"));
  EXPECT_FALSE(IsOwnOrigin("http://evil.example", "localhost:80"));
}

}  // namespace
}  // namespace moonring::lua
