#ifndef MOONRING_LUA_HTTP_SERVER_SESSION_H_
#define MOONRING_LUA_HTTP_SERVER_SESSION_H_

// The requests of one connection of HttpServer and their answers, one after the other. All
// functions must be called on the server's thread.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "absl/strings/string_view.h"
#include "lua/http/server_connection.h"
#include "lua/http/server_options.h"

namespace moonring::lua {

class ServerSession;

// Bytes of an answer in parts that are not written yet; the threads that send it read the number.
using UnreadBytes = std::shared_ptr<std::atomic<size_t>>;

// The part of the server that its sessions use.
class SessionOwner {
 public:
  // The order in which connections are closed to make room for new ones; kBusy: never.
  enum class Rank { kLeaving, kUnknown, kKnown, kBusy };

  virtual const ServerOptions& options() const = 0;
  virtual void SetRank(ServerSession& session, Rank rank) = 0;
  virtual bool HasTooMany() const = 0;  // connections
  // Counts the bytes of a body; false if all bodies together would exceed the limit.
  virtual bool Charge(uint64_t bytes) = 0;
  virtual void Release(uint64_t bytes) = 0;
  virtual std::optional<ServerResponse> Check(const ServerRequest& request) = 0;
  // Registers a request that waits for its answer, and returns its id.
  virtual int64_t Register(ServerSession& session) = 0;
  virtual void Handle(ServerRequest request) = 0;
  // The client has disconnected; the request stays registered.
  virtual void Vanished(int64_t id) = 0;
  virtual void Unregister(int64_t id) = 0;
  virtual void Forget(ServerSession& session) = 0;  // its socket is closed

 protected:
  ~SessionOwner() = default;
};

class ServerSession : public ServerConnection {
 public:
  // `is_surplus`: one connection too many, which is refused if this is still so when its request
  // comes.
  ServerSession(SessionOwner& owner, boost::asio::ip::tcp::socket socket, bool is_surplus)
      : ServerConnection(std::move(socket)), owner_(owner), is_surplus_(is_surplus) {}

  void Start() { AwaitRequest(); }

  // The answer to the registered request.
  void Answer(ServerResponse response);
  void BeginParts(const std::string& type, UnreadBytes unread);
  void SendPart(absl::string_view part);
  void FinishParts();
  // A refusal of the server itself, instead of an answer.
  void Refuse(int status, const std::string& why, ServerHeaders headers = {});

  void Close();
  // Closes the connection once a complete answer is written.
  void CloseSoon();

 private:
  enum class State {
    kIdle,     // no byte of the next request has come
    kHeader,   // a part of it has come
    kBody,     // the header has been accepted
    kWaiting,  // for the answer
    kParts,    // answered in parts, of which the last one has not been given
    kAnswer,   // the complete answer is being written
    kLeaving,  // the output is shut down; the client's remaining bytes are discarded
  };

  void OnInput() override;
  void OnInputEnd() override;
  void OnBroken() override;
  void OnWritten(size_t bytes) override;
  void OnDeadline() override;

  void AwaitRequest();
  void Parse();
  void TakeParseError(boost::system::error_code error);
  bool TakeHeader();
  bool RefuseHeader();
  void AwaitBody();
  bool CountBody();
  void TakeRequest();
  void NoteDeparture();
  void WriteAnswer(ServerResponse response);
  void EndAnswer();
  void Leave();
  void ReleaseBody();
  size_t ReadSize() const;

  SessionOwner& owner_;
  State state_ = State::kIdle;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  ServerRequest request_;
  int64_t id_ = 0;
  size_t header_bytes_ = 0;  // of the header that is parsed now
  uint64_t charged_ = 0;     // bytes of the body that are counted by the owner
  size_t body_mark_ = 0;     // bytes of the body at which the deadline was last renewed
  const bool is_surplus_;
  bool keeps_ = false;     // whether the connection is kept after the answer
  bool is_known_ = false;  // whether a request has passed the check
  bool has_left_ = false;  // whether the owner knows that the client has disconnected
  bool is_http_1_1_ = true;
  bool sends_body_ = true;          // false: an answer to HEAD
  bool awaits_permission_ = false;  // to send its body (100)
  bool closes_soon_ = false;
  UnreadBytes unread_;  // bytes of a streamed answer
  Clock::time_point leaves_until_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HTTP_SERVER_SESSION_H_
