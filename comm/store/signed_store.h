#ifndef MOONRING_COMM_STORE_SIGNED_STORE_H_
#define MOONRING_COMM_STORE_SIGNED_STORE_H_

// A store whose values are signed: anyone who can connect to it can read, replace and delete
// values, but cannot create a valid one.
//
// A value is stored as "VALUE [signed SALT TAG]": TAG is the secret's signature of the key, the
// salt and the value. The salt is new each time, so that two writers of the same value can tell
// theirs apart (compareSet).
//
// Reading a value that another program has written fails with PERMISSION_DENIED, which names the
// key. check() and wait() only look at keys. A value that was signed earlier, under the same key
// with the same secret, is still valid: use a secret for one run only.

#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/store/secret.h"

namespace moonring::comm {

class SignedStore : public c10d::Store {
 public:
  SignedStore(c10::intrusive_ptr<c10d::Store> store, Secret secret);

  using c10d::Store::compareSet;
  using c10d::Store::set;

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override { return store_->deleteKey(key); }
  bool check(const std::vector<std::string>& keys) override { return store_->check(keys); }
  int64_t getNumKeys() override { return store_->getNumKeys(); }
  void wait(const std::vector<std::string>& keys) override { store_->wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    store_->wait(keys, timeout);
  }
  void setTimeout(const std::chrono::milliseconds& timeout) override;
  bool hasExtendedApi() const override { return false; }  // append() could not sign

 private:
  std::string Sealed(const std::string& key, const std::string& value) const;
  std::string Opened(const std::string& key, const std::string& sealed) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const Secret secret_;
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_STORE_SIGNED_STORE_H_
