#include "lua/report/page_server.h"

#include <signal.h>
#include <chrono>
#include <deque>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "comm/store/secret.h"
#include "lua/http/access_check.h"
#include "lua/http/server.h"

namespace moonring::lua {
namespace {

namespace asio = boost::asio;
using Query = std::vector<std::pair<std::string, std::string>>;

// Removes the first token from a query and returns it; "" if there is none.
std::string TakeToken(Query& query) {
  for (auto at = query.begin(); at != query.end(); ++at) {
    if (at->first != "token") continue;
    std::string token = std::move(at->second);
    query.erase(at);
    return token;
  }
  return "";
}

std::string HeaderOf(const HttpServer::Request& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

HttpServer::Response Refusal(int status, const std::string& why) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = why + "\n"};
}

std::optional<HttpServer::Response> Check(const HttpServer::Request& request,
                                          const std::string& token) {
  const std::string host = HeaderOf(request, "host");
  if (!IsLoopbackHost(host)) return Refusal(403, "this page is for localhost and 127.0.0.1 alone");
  if (!IsOwnOrigin(HeaderOf(request, "origin"), host))
    return Refusal(403, "the request comes from another page");
  Query query = request.query;
  if (!IsSameSecret(token, TakeToken(query)))
    return Refusal(403, "expected the address that moonring watch printed, with its token");
  return std::nullopt;
}

PageServer::Request PageRequest(HttpServer::Request request) {
  PageServer::Request page{.id = request.id,
                           .is_post = request.method == "POST",
                           .path = std::move(request.path),
                           .tag = HeaderOf(request, "if-none-match"),
                           .query = std::move(request.query),
                           .type = HeaderOf(request, "content-type")};
  page.tag = page.tag.size() >= 2 ? page.tag.substr(1, page.tag.size() - 2) : "";
  TakeToken(page.query);
  if (page.is_post) page.body = std::move(request.body);
  return page;
}

}  // namespace

class PageServer::Impl {
 public:
  absl::Status Listen(int port) {
    HttpServer::Options options{
        .port = port,
        .most_connections = 32,
        .most_body_bytes = uint64_t{1} << 20,
        .most_waiting_bytes = uint64_t{32} << 20,
        .silence = std::chrono::seconds(30),
        .check = [this](const HttpServer::Request& request) { return Check(request, token_); },
        .handle =
            [this](HttpServer::Request request) {
              asio::post(context_, [this, page = PageRequest(std::move(request))]() mutable {
                wanted_.push_back(std::move(page));
              });
            },
        .most_header_bytes = 8192,
        .methods = {"GET", "POST"},
        .headers = {{"Cache-Control", "no-cache, no-store"},
                    {"Referrer-Policy", "no-referrer"},
                    {"X-Content-Type-Options", "nosniff"},
                    {"Content-Security-Policy", "frame-ancestors 'none'"},
                    {"Cross-Origin-Resource-Policy", "same-origin"}},
        // What is not a request of a browser gets no answer.
        .refuse = [](int status, const std::string& why) -> std::optional<HttpServer::Response> {
          if (status != 405 && status != 413 && status != 503) return std::nullopt;
          return Refusal(status, why);
        }};
    auto server = HttpServer::Listen(std::move(options));
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction now = {};  // signals ignored by nohup or a shell stay ignored
      if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) signals_.add(signal);
    }
    signals_.async_wait([this](boost::system::error_code failed, int signal) {
      if (!failed) signal_ = signal;
    });
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

  HttpServer& server() { return *server_; }
  const std::string& token() const { return token_; }
  int signal() const { return signal_; }

 private:
  const std::string token_ = comm::RandomHex(16);
  int signal_ = 0;
  std::deque<Request> wanted_;
  asio::io_context context_{1};  // run by Next
  asio::signal_set signals_{context_};
  std::unique_ptr<HttpServer> server_;  // the last member: its thread uses the others
};

PageServer::PageServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PageServer::~PageServer() = default;

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Listen(int port) {
  auto impl = std::make_unique<Impl>();
  if (const absl::Status status = impl->Listen(port); !status.ok()) return status;
  return std::unique_ptr<PageServer>(new PageServer(std::move(impl)));
}

int PageServer::port() const { return impl_->server().port(); }
const std::string& PageServer::token() const { return impl_->token(); }
std::optional<PageServer::Request> PageServer::Next(double seconds) { return impl_->Next(seconds); }

void PageServer::Reply(int64_t id, Answer answer) {
  HttpServer::Response response{
      .status = answer.status, .type = std::move(answer.type), .body = std::move(answer.body)};
  if (!answer.tag.empty())
    response.headers.emplace_back("ETag", absl::StrCat("\"", answer.tag, "\""));
  impl_->server().Reply(id, std::move(response));
}

void PageServer::Begin(int64_t id, std::string type) { impl_->server().Begin(id, std::move(type)); }
bool PageServer::Send(int64_t id, absl::string_view part) { return impl_->server().Send(id, part); }
void PageServer::Finish(int64_t id) { impl_->server().Finish(id); }
int PageServer::signal() const { return impl_->signal(); }

}  // namespace moonring::lua
