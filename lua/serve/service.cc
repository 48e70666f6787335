#include "lua/serve/service.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status/status_macros.h"
#include "base/text/nearest_name.h"
#include "lua/http/access_check.h"
#include "lua/serve/promise_records.h"
#include "lua/serve/route_table.h"
#include "lua/serve/service_impl.h"

namespace moonring::serve {
namespace {

constexpr std::chrono::seconds kTidy(5);
constexpr size_t kMostNotes = 100;
constexpr absl::string_view kHeld = "held/";

// The HTTP status of a refusal. Clients repeat a request after 409, 429 and 5xx, and raise an error
// after the others.
int HttpStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnimplemented:
      return 404;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return 422;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kCancelled:  // a session has ended, a result was forgotten
      return 410;
    default:
      return 503;  // a full disk, too many requests: it may pass
  }
}

int64_t HttpId(absl::string_view held) {
  absl::ConsumePrefix(&held, kHeld);
  return std::strtoll(std::string(held).c_str(), nullptr, 10);
}

absl::string_view GivenKey(const lua::HttpServer::Request& asked) {
  for (const char* name : {"x-api-key", "api-key"}) {
    const auto found = asked.headers.find(name);
    if (found != asked.headers.end()) return found->second;
  }
  const auto found = asked.headers.find("authorization");
  if (found == asked.headers.end()) return {};
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(found->second, absl::MaxSplits(' ', 1));
  return absl::EqualsIgnoreCase(parts.first, "bearer") ? parts.second : absl::string_view();
}

absl::string_view HeaderOf(const lua::HttpServer::Request& asked, const char* name) {
  const auto found = asked.headers.find(name);
  return found == asked.headers.end() ? absl::string_view() : absl::string_view(found->second);
}

}  // namespace

ServiceImpl::Response JsonResponse(const Json& body, int status) {
  return {.status = status, .type = "application/json", .body = Written(body)};
}

ServiceImpl::Response ServiceImpl::Refusal(const absl::string_view path, int status,
                                           absl::string_view why) const {
  Response response;
  if (IsOpenAiPath(path)) {
    const char* type = status == 401 || status == 403 ? "authentication_error"
                       : status >= 500                ? "server_error"
                                                      : "invalid_request_error";
    response = JsonResponse(
        {{"error", {{"message", why}, {"type", type}, {"param", nullptr}, {"code", nullptr}}}},
        status);
  } else {
    response = JsonResponse({{"detail", why}}, status);
  }
  if (status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

absl::Status ServiceImpl::Open() {
  const std::string path = options_.folder + "/journal";
  const auto now = Registry::Clock::now();
  ASSIGN_OR_RETURN(journal_, Journal::Open(path));
  registry_ = std::make_unique<Registry>(journal_.get());
  promises_ = std::make_unique<Promises>(
      options_.promises, journal_.get(),
      [this](const std::string& id) { server_->Post([this, id] { TellPolls(id); }); });
  int64_t unknown = 0;
  RETURN_IF_ERROR(journal_->Each([&](const Journal::Record& record) {
    if (!registry_->Read(record, now) && !promises_->Read(record)) ++unknown;
  }));
  if (unknown > 0) {
    Note(absl::StrCat(path, ": ", unknown,
                      " records are unknown (of another version of Moonring?) and are ignored"));
  }
  if (journal_->dropped() > 0) {
    Note(absl::StrCat(path, ": the last ", journal_->dropped(),
                      " bytes are an incomplete or damaged record, which is dropped"));
  }
  promises_->Restore(options_.states);
  ASSIGN_OR_RETURN(server_, lua::HttpServer::Listen({
                                .host = options_.host,
                                .port = options_.port,
                                .check = [this](const Asked& asked) { return Check(asked); },
                                .handle = [this](const Asked& asked) { Handle(asked); },
                                .vanished = [this](int64_t http) { Leave(http); },
                            }));
  server_->After(kTidy, [this] { Tidy(); });
  return absl::OkStatus();
}

ServiceImpl::~ServiceImpl() {
  if (server_ != nullptr) server_->Stop();  // its thread uses the pointer and the promises
  promises_.reset();
}

std::optional<ServiceImpl::Response> ServiceImpl::Check(const Asked& asked) const {
  const absl::string_view host = HeaderOf(asked, "host"), origin = HeaderOf(asked, "origin");
  if (lua::IsLoopbackHost(options_.host) && !lua::IsLoopbackHost(host))
    return Refusal(asked.path, 403, "this service is for localhost and 127.0.0.1 alone");
  if (!lua::IsOwnOrigin(origin, host))
    return Refusal(asked.path, 403, "the request comes from a page of another site");
  if (!lua::IsSameSecret(options_.key, GivenKey(asked)) && !HasFileToken(asked.path)) {
    return Refusal(asked.path, 401,
                   "expected the key that moonring serve printed, as X-API-Key or as "
                   "Authorization: Bearer");
  }
  const Match match = FindRoute(asked.method, asked.path);
  if (match.route) return std::nullopt;
  if (match.methods.empty()) {
    return Refusal(asked.path, 404,
                   absl::StrCat("there is no ", asked.path.substr(0, kMostText), " here",
                                base::DidYouMean(asked.path.substr(0, kMostText), AllPaths())));
  }
  Response response =
      Refusal(asked.path, 405, absl::StrCat("expected ", absl::StrJoin(match.methods, " or ")));
  response.headers.emplace_back("Allow", absl::StrJoin(match.methods, ", "));
  return response;
}

void ServiceImpl::BeReady() {
  if (begun_.exchange(true)) return;
  server_->Post([this] {
    ready_ = true;
    for (const Asked& asked : std::exchange(early_, {})) Handle(asked);
  });
}

void ServiceImpl::Handle(const Asked& asked) {
  if (!ready_) return early_.push_back(asked);
  const Match match = FindRoute(asked.method, asked.path);
  Answer answer = (this->*match.route->answer)(asked, match);
  if (!answer.ok()) {
    const absl::Status& why = answer.status();
    server_->Reply(asked.id, Refusal(asked.path, HttpStatusOf(why), why.message()));
  } else if (*answer) {
    server_->Reply(asked.id, **std::move(answer));
  }
}

// Answers the polls for a promise that has a result now.
void ServiceImpl::TellPolls(const std::string& promise) {
  for (auto each = polls_.begin(); each != polls_.end();) {
    if (each->second.promise != promise) {
      ++each;
      continue;
    }
    if (std::optional<Response> response = ResultOf(each->second))
      server_->Reply(each->first, *std::move(response));
    each = polls_.erase(each);
  }
}

// The client of a request has left.
void ServiceImpl::Leave(int64_t http) {
  polls_.erase(http);
  std::erase_if(early_, [http](const Asked& asked) { return asked.id == http; });
  const std::lock_guard lock(mutex_);
  if (held_.count(http) == 0) return;
  if (promises_->Revoke(absl::StrCat(kHeld, http))) {
    held_.erase(http);
  } else {
    gone_.insert(http);
  }
}

void ServiceImpl::EndSession(const std::string& session) {
  if (!registry_->End(session)) return;
  promises_->Drop(session);
  // The model's thread frees what it has of the session.
  Request request{.route = "finish",
                  .body = Written({{"session_id", session}}),
                  .session = session,
                  .id = absl::StrCat(session, "/finish"),
                  .effect = Effect::kNone};
  const absl::Status status = promises_->Accept(std::move(request), Promises::Clock::now());
  if (!status.ok()) Note(absl::StrCat("the end of ", session, ": ", status.message()));
}

void ServiceImpl::Tidy() {
  const auto now = Promises::Clock::now();
  promises_->Tidy(now);
  const absl::Status status = promises_->Compact(registry_->Records());
  if (!status.ok()) Note(std::string(status.message()));
  for (const std::string& session : registry_->Silent(now - options_.session_silence)) {
    Note(absl::StrCat(session, ": no heartbeat for ", options_.session_silence.count(),
                      " seconds: it has ended"));
    EndSession(session);
  }
  const absl::Status trouble = promises_->TakeTrouble();
  if (!trouble.ok()) {
    Note(absl::StrCat(
        "results are not in the journal, and would be computed again after a restart: ",
        trouble.message()));
  }
  server_->After(kTidy, [this] { Tidy(); });
}

bool ServiceImpl::IsGone(const std::string& id) {
  const std::lock_guard lock(mutex_);
  return gone_.count(HttpId(id)) > 0;
}

void ServiceImpl::Forget(const std::string& id) {
  const std::lock_guard lock(mutex_);
  held_.erase(HttpId(id));
  gone_.erase(HttpId(id));
}

void ServiceImpl::Note(std::string line) {
  const std::lock_guard lock(mutex_);
  if (notes_.size() < kMostNotes) notes_.push_back(std::move(line));
}

std::vector<std::string> ServiceImpl::TakeNotes() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notes_, {});
}

Service::Service(std::unique_ptr<ServiceImpl> impl) : impl_(std::move(impl)) {}
Service::~Service() = default;

absl::Status Service::CheckAddress(const std::string& host, int port) {
  return lua::HttpServer::CheckAddress(host, port);
}

absl::StatusOr<std::unique_ptr<Service>> Service::Open(Options options) {
  auto impl = std::make_unique<ServiceImpl>(std::move(options));
  RETURN_IF_ERROR(impl->Open());
  return std::unique_ptr<Service>(new Service(std::move(impl)));
}

int Service::port() const { return impl_->server().port(); }
std::vector<std::string> Service::TakeNotes() { return impl_->TakeNotes(); }

std::optional<Service::Delivery> Service::Next(Promises::Clock::duration wait,
                                               const std::set<std::string>& routes) {
  impl_->BeReady();
  std::optional<Job> job = impl_->promises().Next(wait, routes);
  if (!job) return std::nullopt;
  Delivery delivery{*std::move(job)};
  delivery.held = absl::StartsWith(delivery.id, kHeld);
  if (delivery.route == "asample") {
    const std::string sampler = delivery.id.substr(0, delivery.id.rfind('/'));
    const auto found = impl_->registry().FindSampler(sampler);
    delivery.weights = found ? found->weights(sampler) : sampler;
  }
  return delivery;
}

void Service::Done(const std::string& id, std::string body, std::string type) {
  impl_->promises().Finish(id, {false, std::move(body), std::move(type)});
}

void Service::Fail(const std::string& id, std::string message, std::string category) {
  impl_->promises().Finish(id, Failure(std::move(message), std::move(category)));
}

void Service::Reply(const std::string& id, int status, std::string type, std::string body) {
  impl_->server().Reply(HttpId(id),
                        {.status = status, .type = std::move(type), .body = std::move(body)});
  impl_->Forget(id);
}

void Service::Begin(const std::string& id, std::string type) {
  impl_->server().Begin(HttpId(id), std::move(type));
}

bool Service::Send(const std::string& id, absl::string_view part) {
  return impl_->server().Send(HttpId(id), part);
}

void Service::Finish(const std::string& id) {
  impl_->server().Finish(HttpId(id));
  impl_->Forget(id);
}

bool Service::IsGone(const std::string& id) const { return impl_->IsGone(id); }

void Service::Publish(const std::string& kind, const std::string& id, std::string json) {
  impl_->registry().Publish(kind, id, std::move(json));
}

void Service::Withdraw(const std::string& kind, const std::string& id) {
  impl_->registry().Withdraw(kind, id);
}

void Service::Interrupt() { impl_->promises().Interrupt(); }

absl::Status Service::Saved(const std::string& model, int64_t seq) {
  return impl_->promises().Saved(model, seq);
}

}  // namespace moonring::serve
