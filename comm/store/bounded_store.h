#ifndef MOONRING_COMM_STORE_BOUNDED_STORE_H_
#define MOONRING_COMM_STORE_BOUNDED_STORE_H_

// A key-value store whose every call ends. LibTorch's TCPStore waits without end for a server whose
// process is stopped (SIGSTOP, a debugger, a frozen machine): the connection stays open, and it has
// a timeout for keys that nobody sets, none for answers that do not come.
//
// Each call is made on a thread of the store's own, one after another, and is waited for as long as
// getTimeout() (get and wait, which may wait for a key as long as that, a second more). What comes
// later fails with DEADLINE_EXCEEDED, and so does at once what is asked behind it; when the server
// answers again, so does the store. Only the thread may be left behind, until the connection or the
// process ends.

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

  // `server` stands in the errors: who serves the store. Throws what `connect` throws; it too is
  // made on the thread, and may take as long as `timeout` and a second.
  BoundedStore(std::string server, std::chrono::milliseconds timeout, const Connect& connect);
  ~BoundedStore() override;

  using c10d::Store::compareSet;
  using c10d::Store::set;

  // Another connection to the same store, with a thread of its own.
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

  // What `call` gives, made on the thread.
  template <typename Call>
  auto Ask(std::chrono::milliseconds limit, Call call);

  const std::string server_;
  const std::shared_ptr<State> state_;  // the thread's too, which may outlive us
  std::thread thread_;
  bool extended_ = false;
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_STORE_BOUNDED_STORE_H_
