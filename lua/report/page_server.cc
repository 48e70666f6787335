#include "lua/report/page_server.h"

#include <signal.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <list>
#include <map>
#include <sstream>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/write.hpp>
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
using Asked = http::request<http::string_body>;
using Query = std::vector<std::pair<std::string, std::string>>;

constexpr size_t kMostConnections = 32;
constexpr uint32_t kLongestHeader = 8192;  // bytes
constexpr uint64_t kLongestBody = uint64_t{1} << 20;
constexpr size_t kMostUnread = size_t{1} << 20;  // bytes of an answer in parts
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

// Decodes "%20" and "+" of a query.
std::string Decoded(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '%' && i + 2 < text.size() &&
                           absl::ascii_isxdigit(text[i + 1]) && absl::ascii_isxdigit(text[i + 2]);
    if (is_escape) {
      decoded += absl::HexStringToBytes(text.substr(i + 1, 2));
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

// Parses the query "a=b&token=TOKEN". Moves the first token to `token`; "" if there is none.
Query ParseQuery(absl::string_view text, std::string& token) {
  Query query;
  bool found = false;
  for (const absl::string_view part : absl::StrSplit(text, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (pair.first == "token" && !std::exchange(found, true)) {
      token = std::string(pair.second);
    } else {
      query.emplace_back(Decoded(pair.first), Decoded(pair.second));
    }
  }
  return query;
}

PageServer::Answer Refusal(int status, std::string why) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = why + "\n"};
}

std::optional<PageServer::Answer> Refuse(const Asked& request, absl::string_view given,
                                         absl::string_view token) {
  const absl::string_view host = View(request[http::field::host]),
                          origin = View(request[http::field::origin]);
  if (!IsLoopbackName(host)) return Refusal(403, "this page is for localhost and 127.0.0.1 alone");
  if (!origin.empty() && origin != absl::StrCat("http://", host))
    return Refusal(403, "the request comes from another page");
  if (!IsSame(token, given))
    return Refusal(403, "expected the address that moonring watch printed, with its token");
  if (request.method() != http::verb::get && request.method() != http::verb::post)
    return Refusal(405, "expected GET or POST");
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

  void Begin(int64_t id, const std::string& type) {
    const auto found = asked_.find(id);
    if (found != asked_.end()) found->second->BeginParts(type);
  }

  bool Send(int64_t id, absl::string_view part) {
    const auto found = asked_.find(id);
    return found != asked_.end() && found->second->SendPart(part);
  }

  void Finish(int64_t id) {
    const auto found = asked_.find(id);
    if (found == asked_.end()) return;
    found->second->FinishParts();
    asked_.erase(found);
  }

  int port() const { return acceptor_.local_endpoint().port(); }
  const std::string& token() const { return token_; }
  int signal() const { return signal_; }

 private:
  // A connection. It reads a request, waits for the answer, writes the answer, and starts again.
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
      parser_->body_limit(kLongestBody);
      stream_.expires_after(kSilence);
      http::async_read_header(stream_, buffer_, *parser_,
                              [self = shared_from_this()](Error error, size_t) {
                                if (!error) return self->TakeHeader();
                                if (error == http::error::body_limit) self->RefuseBody();
                              });
    }

    void Write(Answer answer) {
      FillHeader(answer.status, answer.type);
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

    void BeginParts(const std::string& type) {
      keeps_ = false;
      FillHeader(200, type);
      response_.chunked(true);
      std::ostringstream header;
      header << response_.base();
      unsent_ = header.str();
      stream_.expires_never();
      Drain();  // ends when the client disconnects
      WriteParts();
    }

    bool SendPart(absl::string_view part) {
      if (gone_ || unsent_.size() + part.size() > kMostUnread) return false;
      if (part.empty()) return true;  // an empty chunk would end the answer
      absl::StrAppend(&unsent_, absl::Hex(part.size()), "\r\n", part, "\r\n");
      WriteParts();
      return true;
    }

    void FinishParts() {
      ends_ = true;
      if (gone_) return;
      absl::StrAppend(&unsent_, "0\r\n\r\n");
      WriteParts();
    }

   private:
    void Leave() {
      if (std::exchange(waits_, false)) server_.waiting_.remove(this);
    }

    void FillHeader(int status, const std::string& type) {
      response_ = {};
      response_.version(11);
      response_.result(static_cast<unsigned>(status));
      response_.keep_alive(keeps_);
      response_.set(http::field::content_type, type);
      response_.set(http::field::cache_control, "no-cache, no-store");
      response_.set("Referrer-Policy", "no-referrer");
      response_.set("X-Content-Type-Options", "nosniff");
      response_.set("Content-Security-Policy", "frame-ancestors 'none'");
      response_.set("Cross-Origin-Resource-Policy", "same-origin");
    }

    // Writes the parts of an answer that are not written yet, one write at a time.
    void WriteParts() {
      if (writes_ || unsent_.empty()) return;
      writes_ = true;
      writing_ = std::exchange(unsent_, "");
      stream_.expires_after(kSilence);  // of the write: the pending read has no deadline
      asio::async_write(stream_, asio::buffer(writing_),
                        [self = shared_from_this()](Error error, size_t) {
                          self->writes_ = false;
                          if (error) {
                            self->gone_ = true;
                          } else if (!self->unsent_.empty()) {
                            self->WriteParts();
                          } else if (self->ends_) {
                            self->stream_.close();
                          }
                        });
    }

    // Reads and discards further data from the browser, because the browser may lose the answer if
    // a socket with unread data is closed.
    void Drain() {
      stream_.async_read_some(asio::buffer(rest_),
                              [self = shared_from_this()](Error error, size_t) {
                                if (error) {
                                  self->gone_ = true;
                                } else {
                                  self->Drain();
                                }
                              });
    }

    void RefuseBody() {
      keeps_ = false;
      Write(Refusal(413, absl::StrCat("expected a body of at most ", kLongestBody, " bytes")));
    }

    // Checks the header, and reads the body of a POST. The body of a GET is not read, so that it
    // would be parsed as the next request: the connection is then closed.
    void TakeHeader() {
      const Asked& request = parser_->get();
      const absl::string_view target = View(request.target());
      const size_t mark = target.find('?');
      std::string token;
      request_ = Request{.is_post = request.method() == http::verb::post,
                         .path = std::string(target.substr(0, mark))};
      if (mark != absl::string_view::npos)
        request_.query = ParseQuery(target.substr(mark + 1), token);
      keeps_ = request.keep_alive() && (request_.is_post || parser_->is_done());
      if (auto refusal = Refuse(request, token, server_.token_)) {
        keeps_ = false;
        return Write(*std::move(refusal));
      }
      if (!request_.is_post || parser_->is_done()) return Take();
      http::async_read(stream_, buffer_, *parser_,
                       [self = shared_from_this()](Error error, size_t) {
                         if (!error) return self->Take();
                         if (error == http::error::body_limit) self->RefuseBody();
                       });
    }

    void Take() {
      Asked& request = parser_->get();
      Leave();
      has_asked_ = true;
      request_.id = ++server_.last_id_;
      absl::string_view tag = View(request[http::field::if_none_match]);
      if (tag.size() >= 2) request_.tag = std::string(tag.substr(1, tag.size() - 2));
      request_.type = std::string(View(request[http::field::content_type]));
      if (request_.is_post) request_.body = std::move(request.body());
      server_.asked_[request_.id] = shared_from_this();  // keeps the session alive until it is
                                                         // answered
      server_.wanted_.push_back(std::move(request_));
    }

    Impl& server_;
    boost::beast::tcp_stream stream_;
    boost::beast::flat_buffer buffer_{2 * kLongestHeader};
    std::optional<http::request_parser<http::string_body>> parser_;
    Request request_;
    http::response<http::string_body> response_;
    std::string unsent_, writing_;  // of an answer in parts
    bool writes_ = false;           // whether `writing_` is being written
    bool ends_ = false;             // whether the last part is in unsent_ or writing_
    bool gone_ = false;             // whether the client has disconnected during such an answer
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
void PageServer::Begin(int64_t id, std::string type) { impl_->Begin(id, type); }
bool PageServer::Send(int64_t id, absl::string_view part) { return impl_->Send(id, part); }
void PageServer::Finish(int64_t id) { impl_->Finish(id); }
int PageServer::signal() const { return impl_->signal(); }

}  // namespace moonring::lua
