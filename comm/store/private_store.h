#ifndef MOONRING_COMM_STORE_PRIVATE_STORE_H_
#define MOONRING_COMM_STORE_PRIVATE_STORE_H_

// A store for the ranks that one launcher has started. It has no port, no file and no name: rank 0
// serves it over socket pairs that the launcher creates and passes to the ranks, one end each. So
// no other process can reach it.
//
//   launcher    socketpair() for each rank but 0; one end to that rank, all others to rank 0
//   rank 0      ServedStore(ends): LibTorch's HashStore, and a thread that answers the others
//   rank r      SocketStore(end); clone() creates another socket pair and sends one end over this
//               one
//
// When rank 0 ends, the others' calls fail with UNAVAILABLE.

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace moonring::comm {

// Creates two connected sockets that child processes do not inherit. Throws if none can be created.
void MakeSocketPair(int (&ends)[2]);

// The store of rank 0. Rank 0's own calls go directly to the HashStore. Owns the sockets.
class ServedStore : public c10d::HashStore {
 public:
  explicit ServedStore(std::vector<int> sockets);
  ~ServedStore() override;

 private:
  struct Connection;

  void Serve();
  bool Receive(Connection& connection);
  std::vector<std::string> Answer(const std::vector<std::string>& request, int passed);

  std::vector<std::unique_ptr<Connection>> connections_;  // used by the thread only
  int stop_ = -1;                                         // an eventfd
  std::thread thread_;
};

// The store of a rank other than rank 0: each call sends a message to rank 0 and waits for the
// answer. Owns the socket.
class SocketStore : public c10d::Store {
 public:
  explicit SocketStore(int socket);
  ~SocketStore() override;

  using c10d::Store::compareSet;
  using c10d::Store::set;

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  bool hasExtendedApi() const override { return false; }

 private:
  std::string Ask(std::vector<std::string> request, int passed = -1);

  const int socket_;
  std::mutex mutex_;  // one call at a time
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_STORE_PRIVATE_STORE_H_
