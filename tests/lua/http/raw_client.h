#ifndef MOONRING_TESTS_LUA_HTTP_RAW_CLIENT_H_
#define MOONRING_TESTS_LUA_HTTP_RAW_CLIENT_H_

// A connection to a server on this machine that sends exactly the bytes that a test gives it.

#include <cstddef>
#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace moonring::testing {

struct RawAnswer {
  int status = 0;  // 0: the connection ended before an answer was complete
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // without the transfer coding
};

class RawClient {
 public:
  explicit RawClient(int port);  // connects
  ~RawClient() { Close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // Returns false if the connection is broken.
  bool Send(absl::string_view bytes) const;
  // Reads the next answer, also an interim one (100).
  RawAnswer Read();
  RawAnswer Ask(absl::string_view request) {
    Send(request);
    return Read();
  }
  // Reads until the connection ends.
  std::string ReadAll();
  // Whether the server closes the connection, without another byte.
  bool Ends() { return ReadAll().empty(); }

  void ShutDownOutput() const;
  void Reset();  // closes with a reset
  void Close();

 private:
  bool ReadSome();
  std::string ReadLine();
  std::string ReadBytes(size_t count);

  int socket_ = -1;
  std::string buffer_;
  bool ended_ = false;
};

// Returns a request with this body and its Content-Length.
std::string PostText(absl::string_view target, absl::string_view body,
                     absl::string_view headers = "");
std::string GetText(absl::string_view target, absl::string_view headers = "");

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_LUA_HTTP_RAW_CLIENT_H_
