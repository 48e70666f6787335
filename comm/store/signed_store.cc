#include "comm/store/signed_store.h"

#include <utility>

#include <c10/util/Exception.h>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status/torch_status.h"

namespace moonring::comm {
namespace {

constexpr size_t kSalt = 16;  // digits
constexpr absl::string_view kMark = " [signed ";
constexpr size_t kSeal = kMark.size() + kSalt + 1 + 2 * Secret::kBytes + 1;

// The text to sign for a key, a salt and a value. Different triples give different texts: the
// length of the key comes first, and all salts have the same length.
std::string Signable(const std::string& key, absl::string_view salt, absl::string_view value) {
  return absl::StrCat(key.size(), " ", key, salt, value);
}

std::string TextOf(const std::vector<uint8_t>& bytes) {
  return std::string(bytes.begin(), bytes.end());
}
std::vector<uint8_t> BytesOf(const std::string& text) {
  return std::vector<uint8_t>(text.begin(), text.end());
}

}  // namespace

SignedStore::SignedStore(c10::intrusive_ptr<c10d::Store> store, Secret secret)
    : c10d::Store(store->getTimeout()), store_(std::move(store)), secret_(std::move(secret)) {}

std::string SignedStore::Sealed(const std::string& key, const std::string& value) const {
  const std::string salt = RandomHex(kSalt / 2);
  return absl::StrCat(value, kMark, salt, " ",
                      absl::BytesToHexString(secret_.Sign(Signable(key, salt, value))), "]");
}

std::string SignedStore::Opened(const std::string& key, const std::string& sealed) const {
  if (sealed.size() >= kSeal &&
      absl::string_view(sealed).substr(sealed.size() - kSeal, kMark.size()) == kMark) {
    const absl::string_view value = absl::string_view(sealed).substr(0, sealed.size() - kSeal);
    const absl::string_view salt =
        absl::string_view(sealed).substr(value.size() + kMark.size(), kSalt);
    const absl::string_view tag = absl::string_view(sealed).substr(
        value.size() + kMark.size() + kSalt + 1, 2 * Secret::kBytes);
    if (secret_.Signed(Signable(key, salt, value), absl::HexStringToBytes(tag)))
      return std::string(value);
  }
  throw base::StatusError(absl::PermissionDeniedError(
      absl::StrCat("the store's value at '", key,
                   "' is not signed with this rank's MOONRING_TOKEN: another program has written "
                   "it, or a rank has another token or none")));
}

c10::intrusive_ptr<c10d::Store> SignedStore::clone() {
  return c10::make_intrusive<SignedStore>(store_->clone(), secret_);
}

void SignedStore::setTimeout(const std::chrono::milliseconds& timeout) {
  c10d::Store::setTimeout(timeout);
  store_->setTimeout(timeout);
}

void SignedStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  store_->set(key, BytesOf(Sealed(key, TextOf(value))));
}

std::vector<uint8_t> SignedStore::get(const std::string& key) {
  return BytesOf(Opened(key, TextOf(store_->get(key))));
}

std::vector<uint8_t> SignedStore::compareSet(const std::string& key,
                                             const std::vector<uint8_t>& expected,
                                             const std::vector<uint8_t>& desired) {
  const std::vector<uint8_t> mine = BytesOf(Sealed(key, TextOf(desired)));
  if (expected.empty()) {
    const std::vector<uint8_t> now = store_->compareSet(key, {}, mine);
    return now == mine ? desired : BytesOf(Opened(key, TextOf(now)));
  }
  // The signature of the current value is unknown, so the value is read first, and replaced only if
  // nobody has changed it meanwhile.
  while (store_->check({key})) {
    const std::vector<uint8_t> sealed = store_->get(key),
                               value = BytesOf(Opened(key, TextOf(sealed)));
    if (value != expected) return value;
    if (store_->compareSet(key, sealed, mine) == mine) return desired;
  }
  return expected;  // like other stores for a missing key
}

int64_t SignedStore::add(const std::string& key, int64_t value) {
  while (true) {
    std::vector<uint8_t> sealed;
    int64_t sum = 0;
    if (store_->check({key})) {
      sealed = store_->get(key);
      TORCH_CHECK_VALUE(absl::SimpleAtoi(Opened(key, TextOf(sealed)), &sum),
                        "the store's value at '", key, "' is not a number");
    }
    const std::vector<uint8_t> mine = BytesOf(Sealed(key, absl::StrCat(sum + value)));
    if (store_->compareSet(key, sealed, mine) == mine) return sum + value;
  }
}

}  // namespace moonring::comm
