#include "lua/http/server.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <exception>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lua/http/response_text.h"
#include "lua/http/server_session.h"

namespace moonring::lua {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using AcceptError = boost::system::error_code;

// Connections above the limit that are accepted, so that their requests can be answered with 503.
constexpr size_t kMostSurplus = 16;
constexpr int kAcceptedAtOnce = 16;
constexpr std::chrono::milliseconds kLackOfFiles(100);  // pause if no file can be opened
constexpr std::chrono::seconds kLastAnswers(1);         // to send answers after Stop

absl::Status CheckOptions(const HttpServer::Options& options) {
  if (options.port < 0 || options.port > 65535)
    return absl::InvalidArgumentError(
        absl::StrCat("port: expected 0 to 65535, got ", options.port));
  if (!options.handle) return absl::InvalidArgumentError("handle: expected a function");
  if (options.most_connections == 0 || options.most_header_bytes < 256 ||
      options.silence.count() <= 0)
    return absl::InvalidArgumentError(
        "most_connections, most_header_bytes, silence: expected at least 1, 256 and 1");
  if (options.most_waiting_bytes < options.most_body_bytes)
    return absl::InvalidArgumentError(
        absl::StrCat("most_waiting_bytes: expected at least most_body_bytes, ",
                     options.most_body_bytes, ", got ", options.most_waiting_bytes));
  return absl::OkStatus();
}

}  // namespace

class HttpServer::Impl : public SessionOwner {
 public:
  explicit Impl(Options options) : options_(std::move(options)) {}

  virtual ~Impl() { Stop(); }

  void Stop() {
    if (!thread_.joinable()) return;
    asio::post(context_, [this] { Shut(); });
    thread_.join();
  }

  // Takes the port.
  absl::Status Bind() {
    AcceptError error;
    const asio::ip::address address =
        asio::ip::make_address(options_.host == "localhost" ? "127.0.0.1" : options_.host, error);
    if (error)
      return absl::InvalidArgumentError(
          absl::StrCat("host: expected an IP address or localhost, got '", options_.host, "'"));
    const tcp::endpoint place(address, static_cast<uint16_t>(options_.port));
    acceptor_.open(place.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(place, error);
    if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
    if (!error) acceptor_.non_blocking(true, error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat(address.is_loopback() ? "" : options_.host + ", ", "port ", options_.port,
                       ": ", error.message(),
                       error == asio::error::address_in_use ? "; port=0 takes any free one" : ""));
    }
    return absl::OkStatus();
  }

  absl::Status Listen() {
    if (absl::Status status = Bind(); !status.ok()) return status;
    fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
    port_ = acceptor_.local_endpoint().port();
    Accept();
    StartThread();
    return absl::OkStatus();
  }

  int port() const { return port_; }

  void Reply(int64_t id, Response response) {
    asio::dispatch(context_, [this, id, response = std::move(response)]() mutable {
      if (const auto session = Take(id)) session->Answer(std::move(response));
    });
  }

  void Begin(int64_t id, std::string type) {
    const UnreadBytes unread = std::make_shared<std::atomic<size_t>>(0);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      unread_.emplace(id, unread);
    }
    asio::dispatch(context_, [this, id, unread, type = std::move(type)] {
      const auto found = waiting_.find(id);
      if (found == waiting_.end()) return EndParts(id);
      const std::shared_ptr<ServerSession> session = found->second;
      session->BeginParts(type, unread);
    });
  }

  bool Send(int64_t id, absl::string_view part) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = unread_.find(id);
      if (found == unread_.end() || *found->second + part.size() > options_.most_unread_bytes)
        return false;
      *found->second += part.size();
    }
    if (part.empty()) return true;
    asio::dispatch(context_, [this, id, part = std::string(part)] {
      const auto found = waiting_.find(id);
      if (found != waiting_.end()) found->second->SendPart(part);
    });
    return true;
  }

  void Finish(int64_t id) {
    EndParts(id);
    asio::dispatch(context_, [this, id] {
      if (const auto session = Take(id)) session->FinishParts();
    });
  }

  void Post(std::function<void()> function) { asio::post(context_, std::move(function)); }

  void After(std::chrono::milliseconds delay, std::function<void()> function) {
    const auto timer = std::make_shared<asio::steady_timer>(context_, delay);
    asio::post(context_, [timer, function = std::move(function)]() mutable {
      timer->async_wait([timer, function = std::move(function)](AcceptError error) {
        if (!error) function();
      });
    });
  }

 private:
  struct Place {
    std::shared_ptr<ServerSession> session;
    Rank rank = Rank::kBusy;
    std::list<ServerSession*>::iterator at;  // in the list of its rank
  };

  // The thread inherits a mask that blocks all signals, so that other threads receive them.
  void StartThread() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "http server");
      context_.run();
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void Accept() {
    acceptor_.async_wait(tcp::acceptor::wait_read, [this](AcceptError error) {
      if (error || shuts_) return;
      AcceptSome();
    });
  }

  void AcceptSome() {
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      const int file =
          accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (file >= 0) {
        Add(file);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        break;
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        // The connection stays in the queue of the kernel, which would call this again at once.
        CloseOne();
        return After(kLackOfFiles, [this] { Accept(); });
      }
    }
    Accept();
  }

  void Add(int file) {
    tcp::socket socket(context_);
    AcceptError error;
    socket.assign(acceptor_.local_endpoint(error).protocol(), file, error);
    if (error) {
      close(file);
      return;
    }
    const bool is_surplus = sessions_.size() >= options_.most_connections && !CloseOne();
    if (sessions_.size() >= options_.most_connections + kMostSurplus) return;
    const auto session = std::make_shared<ServerSession>(*this, std::move(socket), is_surplus);
    sessions_[session.get()] = Place{session, Rank::kBusy, {}};
    session->Start();
  }

  // Closes a connection that does not wait for an answer. Returns whether there was one.
  bool CloseOne() {
    for (std::list<ServerSession*>& list : ranks_) {
      if (list.empty()) continue;
      const std::shared_ptr<ServerSession> session = sessions_.at(list.front()).session;
      session->Close();
      return true;
    }
    return false;
  }

  // Returns the session with this request, which is then not registered any more; null if its
  // client has left.
  std::shared_ptr<ServerSession> Take(int64_t id) {
    const auto found = waiting_.find(id);
    if (found == waiting_.end()) return nullptr;
    const std::shared_ptr<ServerSession> session = std::move(found->second);
    Unregister(id);
    return session;
  }

  void EndParts(int64_t id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    unread_.erase(id);
  }

  // Ends the thread once the answers that were given before are sent.
  void Shut() {
    shuts_ = true;
    AcceptError ignored;
    acceptor_.close(ignored);
    const auto sessions = sessions_;
    for (const auto& [session, place] : sessions) session->CloseSoon();
    if (sessions_.empty()) return context_.stop();
    After(kLastAnswers, [this] { context_.stop(); });
  }

  const Options& options() const override { return options_; }
  bool HasTooMany() const override { return sessions_.size() > options_.most_connections; }

  void SetRank(ServerSession& session, Rank rank) override {
    const auto found = sessions_.find(&session);
    if (found == sessions_.end()) return;
    Place& place = found->second;
    if (place.rank != Rank::kBusy) ListOf(place.rank).erase(place.at);
    place.rank = rank;
    if (rank != Rank::kBusy) place.at = ListOf(rank).insert(ListOf(rank).end(), &session);
  }

  bool Charge(uint64_t bytes) override {
    if (bytes > options_.most_waiting_bytes - charged_) return false;
    charged_ += bytes;
    return true;
  }
  void Release(uint64_t bytes) override { charged_ -= bytes; }

  std::optional<Response> Check(const Request& request) override {
    if (!options_.check) return std::nullopt;
    try {
      return options_.check(request);
    } catch (const std::exception& error) {
      return JsonRefusal(500, error.what());
    }
  }

  int64_t Register(ServerSession& session) override {
    waiting_[++last_id_] = sessions_.at(&session).session;
    return last_id_;
  }
  void Unregister(int64_t id) override {
    waiting_.erase(id);
    EndParts(id);
  }

  void Handle(Request request) override {
    const int64_t id = request.id;
    try {
      options_.handle(std::move(request));
    } catch (const std::exception& error) {
      if (const auto session = Take(id)) session->Refuse(500, error.what());
    }
  }

  void Vanished(int64_t id) override {
    if (options_.vanished && !shuts_) options_.vanished(id);
  }

  void Forget(ServerSession& session) override {
    SetRank(session, Rank::kBusy);
    sessions_.erase(&session);
    if (shuts_ && sessions_.empty()) context_.stop();
  }

  std::list<ServerSession*>& ListOf(Rank rank) { return ranks_[static_cast<size_t>(rank)]; }

  const Options options_;
  int port_ = 0;
  uint64_t charged_ = 0;  // bytes of bodies
  int64_t last_id_ = 0;
  bool shuts_ = false;
  // Connections that may be closed to make room for others, the oldest first, by rank.
  std::array<std::list<ServerSession*>, 3> ranks_;
  std::mutex mutex_;                                 // guards unread_
  std::unordered_map<int64_t, UnreadBytes> unread_;  // by the id of a streamed answer
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  tcp::acceptor acceptor_{context_};
  std::unordered_map<ServerSession*, Place> sessions_;
  std::unordered_map<int64_t, std::shared_ptr<ServerSession>> waiting_;  // by their request's id
  std::thread thread_;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

absl::Status HttpServer::CheckAddress(const std::string& host, int port) {
  return Impl({.host = host, .port = port}).Bind();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(Options options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  auto impl = std::make_unique<Impl>(std::move(options));
  if (absl::Status status = impl->Listen(); !status.ok()) return status;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

void HttpServer::Stop() { impl_->Stop(); }
int HttpServer::port() const { return impl_->port(); }
void HttpServer::Reply(int64_t id, Response response) { impl_->Reply(id, std::move(response)); }
void HttpServer::Begin(int64_t id, std::string type) { impl_->Begin(id, std::move(type)); }
bool HttpServer::Send(int64_t id, absl::string_view part) { return impl_->Send(id, part); }
void HttpServer::Finish(int64_t id) { impl_->Finish(id); }
void HttpServer::Post(std::function<void()> function) { impl_->Post(std::move(function)); }
void HttpServer::After(std::chrono::milliseconds delay, std::function<void()> function) {
  impl_->After(delay, std::move(function));
}

}  // namespace moonring::lua
