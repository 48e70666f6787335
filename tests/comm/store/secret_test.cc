#include "comm/store/secret.h"

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace moonring::comm {
namespace {

std::string Signature(const std::string& key, const std::string& message) {
  return absl::BytesToHexString(Secret(key).Sign(message));
}

// RFC 4231, test cases 1, 2, 6 (a key longer than the hash's block) and 7.
TEST(SecretTest, SignsAsRfc4231Says) {
  EXPECT_EQ(Signature(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(Signature("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      Signature(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(
      Signature(std::string(131, '\xaa'),
                "This is a test using a larger than block-size key and a larger than block-size "
                "data. The key needs to be hashed before being used by the HMAC algorithm."),
      "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(SecretTest, VerifiesItsOwnSignature) {
  const Secret secret("a"), other("b");
  const std::string signature = secret.Sign("words");
  EXPECT_TRUE(secret.Signed("words", signature));
  EXPECT_FALSE(secret.Signed("word", signature));
  EXPECT_FALSE(other.Signed("words", signature));
  EXPECT_FALSE(secret.Signed("words", signature.substr(1)));
  EXPECT_FALSE(secret.Signed("words", ""));
}

TEST(SecretTest, RandomDigitsDiffer) {
  EXPECT_EQ(RandomHex(32).size(), 64u);
  EXPECT_NE(RandomHex(32), RandomHex(32));
}

}  // namespace
}  // namespace moonring::comm
