#ifndef MOONRING_COMM_STORE_BOUNDED_STORE_H_
#define MOONRING_COMM_STORE_BOUNDED_STORE_H_

// A key-value store in which every call ends in bounded time. LibTorch's TCPStore waits forever for
// a server whose process is stopped (SIGSTOP, a debugger, a frozen machine): the connection stays
// open, and its timeout applies to keys that nobody sets, not to missing answers.
//
// Each call is made on the store's own thread, one after another, and the caller waits at most
// getTimeout() (for get and wait, which may wait for a key that long, one second more). After that
// the call fails with DEADLINE_EXCEEDED, and calls queued behind it fail at once; when the server
// answers again, the store works again. At worst the thread keeps waiting after the store is
// destroyed, until the connection or the process ends.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace moonring::comm {

class BoundedStore : public c10d::Store {
 public:
  using Connect = std::function<c10::intrusive_ptr<c10d::Store>()>;

  // `server` names the server in error messages. Throws what `connect` throws; `connect` too runs
  // on the store's thread, and may take `timeout` plus one second.
  BoundedStore(std::string server, std::chrono::milliseconds timeout, const Connect& connect);
  ~BoundedStore() override;

  using c10d::Store::compareSet;
  using c10d::Store::set;

  // Another connection to the same store, with its own thread.
  c10::intrusive_ptr<c10d::Store> clone() override;

  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  void append(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys,
                const std::vector<std::vector<uint8_t>>& values) override;
  bool hasExtendedApi() const override { return extended_; }

 private:
  struct State;

  void End();

  // Runs `call` on the store's thread and returns its result.
  template <typename Call>
  auto Ask(std::chrono::milliseconds limit, Call call);

  const std::string server_;
  const std::shared_ptr<State> state_;  // shared with the thread, which may outlive this object
  std::thread thread_;
  bool extended_ = false;
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_STORE_BOUNDED_STORE_H_
