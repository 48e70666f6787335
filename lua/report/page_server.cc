#include "lua/report/page_server.h"

#include <signal.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <list>
#include <map>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace moonring::lua {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Error = boost::system::error_code;
using Header = http::request<http::empty_body>;

constexpr size_t kMostConnections = 32;
constexpr uint32_t kLongestHeader = 8192;  // bytes
constexpr std::chrono::seconds kSilence(30), kFarewell(2);

std::string NewToken() {
  std::array<char, 16> bytes{};
  size_t have = 0;
  while (have < bytes.size()) {  // a signal may interrupt it
    const ssize_t got = getrandom(bytes.data() + have, bytes.size() - have, 0);
    if (got > 0) have += static_cast<size_t>(got);
  }
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

// Compares the token in constant time, so that the duration does not reveal how much of it is
// right.
bool IsSame(absl::string_view token, absl::string_view given) {
  if (given.size() != token.size()) return false;
  volatile unsigned char differs = 0;
  for (size_t i = 0; i < token.size(); ++i)
    differs = differs | static_cast<unsigned char>(token[i] ^ given[i]);
  return differs == 0;
}

absl::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

bool IsLoopbackName(absl::string_view host) {
  const size_t port = host.rfind(':');
  if (port != absl::string_view::npos && host.find(']', port) == absl::string_view::npos)
    host = host.substr(0, port);
  return host == "127.0.0.1" || host == "[::1]" || absl::AsciiStrToLower(host) == "localhost";
}

// Returns the token in the query "a=b&token=TOKEN"; "" if there is none.
std::string TokenIn(absl::string_view query) {
  for (absl::string_view part : absl::StrSplit(query, '&')) {
    if (absl::StartsWith(part, "token=")) return std::string(part.substr(6));
  }
  return "";
}

PageServer::Answer Refusal(int status, std::string why) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = why + "\n"};
}

std::optional<PageServer::Answer> Refuse(const Header& request, absl::string_view query,
                                         absl::string_view token) {
  const absl::string_view host = View(request[http::field::host]),
                          origin = View(request[http::field::origin]);
  if (!IsLoopbackName(host)) return Refusal(403, "this page is for localhost and 127.0.0.1 alone");
  if (!origin.empty() && origin != absl::StrCat("http://", host))
    return Refusal(403, "the request comes from another page");
  if (!IsSame(token, TokenIn(query)))
    return Refusal(403, "expected the address that moonring watch printed, with its token");
  if (request.method() != http::verb::get) return Refusal(405, "expected GET");
  return std::nullopt;
}

}  // namespace

class PageServer::Impl {
 public:
  absl::Status Listen(int port) {
    const tcp::endpoint place(asio::ip::address_v4::loopback(), static_cast<uint16_t>(port));
    Error error;
    acceptor_.open(place.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(place, error);
    if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
    if (error) return absl::UnavailableError(absl::StrCat("port ", port, ": ", error.message()));
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction now = {};  // signals ignored by nohup or a shell stay ignored
      if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) signals_.add(signal);
    }
    signals_.async_wait([this](Error failed, int signal) {
      if (!failed) signal_ = signal;
    });
    Accept();
    return absl::OkStatus();
  }

  std::optional<Request> Next(double seconds) {
    const auto until = std::chrono::steady_clock::now() +
                       std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                           std::chrono::duration<double>(seconds));
    while (wanted_.empty() && signal_ == 0) {
      if (context_.run_one_until(until) == 0) return std::nullopt;
    }
    if (wanted_.empty()) return std::nullopt;
    Request request = std::move(wanted_.front());
    wanted_.pop_front();
    return request;
  }

  void Reply(int64_t id, Answer answer) {
    const auto found = asked_.find(id);
    if (found == asked_.end()) return;
    const std::shared_ptr<Session> session = std::move(found->second);
    asked_.erase(found);
    session->Write(std::move(answer));
  }

  int port() const { return acceptor_.local_endpoint().port(); }
  const std::string& token() const { return token_; }
  int signal() const { return signal_; }

 private:
  // A connection. It reads a request's header, waits for the answer, writes the answer, and starts
  // again.
  class Session : public std::enable_shared_from_this<Session> {
   public:
    Session(Impl& server, tcp::socket socket) : server_(server), stream_(std::move(socket)) {
      ++server_.connections_;
    }
    ~Session() {
      Leave();
      --server_.connections_;
    }

    // Closes the connection; only for a connection without a request that waits for an answer.
    void Drop() {
      Leave();
      stream_.close();
    }

    bool has_asked() const { return has_asked_; }

    void Read() {
      waits_ = true;
      server_.waiting_.push_back(this);
      parser_.emplace();
      parser_->header_limit(kLongestHeader);
      stream_.expires_after(kSilence);
      http::async_read_header(stream_, buffer_, *parser_,
                              [self = shared_from_this()](Error error, size_t) {
                                if (!error) self->Take();
                              });
    }

    void Write(Answer answer) {
      response_ = {};
      response_.version(11);
      response_.result(static_cast<unsigned>(answer.status));
      response_.keep_alive(keeps_);
      response_.set(http::field::content_type, answer.type);
      response_.set(http::field::cache_control, "no-cache, no-store");
      response_.set("Referrer-Policy", "no-referrer");
      response_.set("X-Content-Type-Options", "nosniff");
      response_.set("Content-Security-Policy", "frame-ancestors 'none'");
      response_.set("Cross-Origin-Resource-Policy", "same-origin");
      if (!answer.tag.empty())
        response_.set(http::field::etag, absl::StrCat("\"", answer.tag, "\""));
      response_.body() = std::move(answer.body);
      response_.prepare_payload();
      stream_.expires_after(kSilence);
      http::async_write(stream_, response_, [self = shared_from_this()](Error error, size_t) {
        if (error) return;
        if (self->keeps_) return self->Read();
        self->stream_.socket().shutdown(tcp::socket::shutdown_send, error);
        self->stream_.expires_after(kFarewell);
        self->Drain();
      });
    }

   private:
    void Leave() {
      if (std::exchange(waits_, false)) server_.waiting_.remove(this);
    }

    // Reads and discards further data from the browser, because the browser may lose the answer if
    // a socket with unread data is closed.
    void Drain() {
      stream_.async_read_some(asio::buffer(rest_),
                              [self = shared_from_this()](Error error, size_t) {
                                if (!error) self->Drain();
                              });
    }

    void Take() {
      const Header& request = parser_->get();
      const absl::string_view target = View(request.target());
      const size_t mark = target.find('?');
      const absl::string_view query =
          mark == absl::string_view::npos ? absl::string_view() : target.substr(mark + 1);
      // The connection is kept open only if the request has no body: a body is not read, so it
      // would be parsed as the next request.
      keeps_ = request.keep_alive() && parser_->is_done();
      if (auto refusal = Refuse(request, query, server_.token_)) {
        keeps_ = false;
        return Write(*std::move(refusal));
      }
      Leave();
      has_asked_ = true;
      Request wanted{.id = ++server_.last_id_, .path = std::string(target.substr(0, mark))};
      absl::string_view tag = View(request[http::field::if_none_match]);
      if (tag.size() >= 2) wanted.tag = std::string(tag.substr(1, tag.size() - 2));
      server_.asked_[wanted.id] = shared_from_this();  // keeps the session alive until it is
                                                       // answered
      server_.wanted_.push_back(std::move(wanted));
    }

    Impl& server_;
    boost::beast::tcp_stream stream_;
    boost::beast::flat_buffer buffer_{2 * kLongestHeader};
    std::optional<http::request_parser<http::empty_body>> parser_;
    http::response<http::string_body> response_;
    bool keeps_ = false;
    bool waits_ = false;      // whether the session is in the server's list waiting_
    bool has_asked_ = false;  // whether a request with the right token came
    std::array<char, 4096> rest_;
  };

  void Accept() {
    acceptor_.async_accept([this](Error error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (!error && MakeRoom()) std::make_shared<Session>(*this, std::move(socket))->Read();
      Accept();
    });
  }

  // Makes room for one more connection. If there are too many, closes one that waits for a request:
  // the oldest that never sent the token, else the oldest.
  bool MakeRoom() {
    if (connections_ < kMostConnections) return true;
    auto gone = std::find_if(waiting_.begin(), waiting_.end(),
                             [](const Session* session) { return !session->has_asked(); });
    if (gone == waiting_.end()) gone = waiting_.begin();
    if (gone == waiting_.end()) return false;
    (*gone)->Drop();
    return true;
  }

  const std::string token_ = NewToken();
  size_t connections_ = 0;
  int64_t last_id_ = 0;
  int signal_ = 0;
  std::deque<Request> wanted_;
  std::list<Session*> waiting_;  // sessions that wait for an acceptable request, the oldest first
  asio::io_context context_{1};
  std::map<int64_t, std::shared_ptr<Session>> asked_;  // requests that are not answered yet
  tcp::acceptor acceptor_{context_};
  asio::signal_set signals_{context_};
};

PageServer::PageServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PageServer::~PageServer() = default;

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Listen(int port) {
  auto impl = std::make_unique<Impl>();
  if (const absl::Status status = impl->Listen(port); !status.ok()) return status;
  return std::unique_ptr<PageServer>(new PageServer(std::move(impl)));
}

int PageServer::port() const { return impl_->port(); }
const std::string& PageServer::token() const { return impl_->token(); }
std::optional<PageServer::Request> PageServer::Next(double seconds) { return impl_->Next(seconds); }
void PageServer::Reply(int64_t id, Answer answer) { impl_->Reply(id, std::move(answer)); }
int PageServer::signal() const { return impl_->signal(); }

}  // namespace moonring::lua
