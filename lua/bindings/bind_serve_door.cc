// Lua bindings for `moonring serve`: the door, through which jobs come and results leave.

#include <signal.h>

#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/torch_status.h"
#include "lua/binding/class.h"
#include "lua/binding/options.h"
#include "lua/binding/set_field.h"
#include "lua/binding/value_error.h"
#include "lua/bindings/bindings.h"
#include "lua/bindings/serve_door.h"
#include "lua/host/preemption.h"
#include "lua/serve/service.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

// A service, and the signals that end it. An embedded one leaves signals to its application.
class ServeDoor {
 public:
  ServeDoor(std::unique_ptr<serve::Service> service, bool takes_signals)
      : service_(std::move(service)), takes_signals_(takes_signals) {
    if (takes_signals_) CatchPreemption(PreemptionAnswer::kAfterJob);
  }
  ~ServeDoor() {
    if (takes_signals_) ReleasePreemption();
  }
  ServeDoor(const ServeDoor&) = delete;
  ServeDoor& operator=(const ServeDoor&) = delete;

  serve::Service* operator->() { return service_.get(); }

  int ended() {
    if (ended_ == 0 && takes_signals_) {
      const int signal = TakePreemption();
      ended_ = signal == SIGUSR1 ? 0 : signal;  // SIGUSR1 asks a training run to save
    }
    return ended_;
  }

  // Waits in steps of kStep and checks for signals, because a handler cannot wake the thread.
  std::optional<serve::Service::Delivery> Next(double seconds,
                                               const std::set<std::string>& routes) {
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(seconds));
    while (true) {
      const Clock::duration left = std::max(Clock::duration::zero(), until - Clock::now());
      auto delivery = service_->Next(std::min<Clock::duration>(left, kStep), routes);
      if (delivery.has_value() || left <= kStep || ended() != 0) return delivery;
    }
  }

 private:
  static constexpr std::chrono::milliseconds kStep{100};

  const std::unique_ptr<serve::Service> service_;
  const bool takes_signals_;
  int ended_ = 0;
};

serve::Service::BaseModel ReadBaseModel(Options options) {
  serve::Service::BaseModel model;
  const auto name = options.Require<std::string>("name");
  model.names = options.Get<std::vector<std::string>>("names", {});
  model.max_context_length = options.Get<int64_t>("max_context_length", 0);
  model.trainable = options.Get<bool>("trainable", true);
  model.sampleable = options.Get<bool>("sampleable", true);
  options.Finish();
  std::erase(model.names, name);
  model.names.insert(model.names.begin(), name);
  return model;
}

std::vector<serve::Service::BaseModel> ReadBaseModels(lua_State* L, Options& options) {
  std::vector<serve::Service::BaseModel> models;
  const int list = PushTableOption(L, options, "base_models");
  if (list == 0) return models;
  for (int i = 1; i <= static_cast<int>(lua_objlen(L, list)); ++i) {
    lua_rawgeti(L, list, i);
    models.push_back(ReadBaseModel(Options(L, lua_gettop(L))));
    lua_pop(L, 1);
  }
  lua_remove(L, list);
  return models;
}

std::chrono::milliseconds Milliseconds(double seconds, const char* name) {
  TORCH_CHECK_VALUE(seconds > 0 && seconds <= 1e7, name,
                    ": expected more than 0 and at most 1e7 seconds, got ", seconds);
  return std::chrono::milliseconds(std::llround(1000 * seconds));
}

std::shared_ptr<ServeDoor> OpenDoor(lua_State* L, Options options) {
  const Host& host = HostOf(L);
  if (host.sandbox)
    throw base::StatusError(absl::PermissionDeniedError("--sandbox: no port is opened"));
  serve::Service::Options read;
  read.host = options.Get<std::string>("host", read.host);
  read.port = options.Get<int>("port", 0);
  read.key = options.Require<std::string>("key");
  read.folder = options.Require<std::string>("folder");
  read.external = options.Get<std::string>("external", "");
  read.base_models = ReadBaseModels(L, options);
  read.states = options.Get<std::map<std::string, int64_t>>("states", {});
  read.poll = Milliseconds(options.Get<double>("poll_seconds", 20), "poll_seconds");
  options.Finish();
  TORCH_CHECK_VALUE(read.port >= 0 && read.port <= 65535, "port: expected 0 to 65535, got ",
                    read.port);
  TORCH_CHECK_VALUE(!read.key.empty(), "key: expected the key that clients must send");
  return std::make_shared<ServeDoor>(base::ValueOrThrow(serve::Service::Open(std::move(read))),
                                     !host.embedded);
}

void PushJob(lua_State* L, const serve::Service::Delivery& job) {
  lua_createtable(L, 0, 12);
  SetField(L, "id", job.id);
  SetField(L, "route", job.route);
  SetField(L, "body", job.body);
  SetField(L, "type", job.type);
  SetField(L, "session", job.session);
  SetField(L, "model", job.model);
  SetField(L, "seq", static_cast<double>(job.seq));
  SetField(L, "seed", static_cast<double>(job.seed));
  SetField(L, "replay", job.replay);
  SetField(L, "held", job.held);
  if (!job.weights.empty()) SetField(L, "weights", job.weights);
}

// Pushes the next job as a table; nil if there was none in this time.
Pushed NextJob(lua_State* L, ServeDoor& door, double seconds,
               std::optional<std::vector<std::string>> routes) {
  TORCH_CHECK_VALUE(seconds >= 0 && seconds <= 3600, "seconds: expected 0 to 3600, got ", seconds);
  const auto list = routes.value_or(std::vector<std::string>());
  const auto job = door.Next(seconds, std::set<std::string>(list.begin(), list.end()));
  if (!job.has_value()) return lua_pushnil(L), Pushed{1};
  PushJob(L, *job);
  return {1};
}

void FailJob(ServeDoor& door, std::string id, std::string message,
             std::optional<std::string> category) {
  std::string of = category.value_or("user");
  TORCH_CHECK_VALUE(of == "user" || of == "server", "category: expected 'user' or 'server', got '",
                    of, "'");
  door->Fail(id, std::move(message), std::move(of));
}

void ReplyHeld(ServeDoor& door, std::string id, int status, std::string type, std::string body) {
  TORCH_CHECK_VALUE(status >= 200 && status <= 599, "status: expected 200 to 599, got ", status);
  door->Reply(id, status, std::move(type), std::move(body));
}

}  // namespace

int PushTableOption(lua_State* L, Options& options, const char* key) {
  const int index = options.Push(key);
  TORCH_CHECK_VALUE(index == 0 || lua_istable(L, index), "option '", key,
                    "': expected a table, got ", WordsOfValue(L, index));
  return index;
}

void RegisterServeDoor(lua_State* L) {
  Class<ServeDoor>::Register(
      L, "ServeDoor",
      {
          {"port", Bind<[](ServeDoor& door) { return door->port(); }>},
          {"next", Bind<&NextJob>},
          {"done", Bind<[](ServeDoor& door, std::string id, std::string body,
                           std::optional<std::string> type) {
             door->Done(id, std::move(body), type.value_or("application/json"));
           }>},
          {"fail", Bind<&FailJob>},
          {"reply", Bind<&ReplyHeld>},
          {"begin", Bind<[](ServeDoor& door, std::string id, std::string type) {
             door->Begin(id, std::move(type));
           }>},
          {"send", Bind<[](ServeDoor& door, std::string id, std::string part) {
             return door->Send(id, part);
           }>},
          {"finish", Bind<[](ServeDoor& door, std::string id) { door->Finish(id); }>},
          {"gone", Bind<[](ServeDoor& door, std::string id) { return door->IsGone(id); }>},
          {"publish", Bind<[](ServeDoor& door, std::string kind, std::string id, std::string json) {
             return door->Publish(kind, id, std::move(json));
           }>},
          {"withdraw", Bind<[](ServeDoor& door, std::string kind, std::string id) {
             return door->Withdraw(kind, id);
           }>},
          {"saved", Bind<[](ServeDoor& door, std::string model, int64_t seq) {
             return door->Saved(model, seq);
           }>},
          {"interrupt", Bind<[](ServeDoor& door) { door->Interrupt(); }>},
          {"notes", Bind<[](ServeDoor& door) { return door->TakeNotes(); }>},
          {"ended", Bind<[](ServeDoor& door) { return door.ended(); }>},
          {"__tostring",
           Bind<[](ServeDoor& door) { return absl::StrCat("ServeDoor on port ", door->port()); }>},
      });
}

const NamedFunction kOpenServeDoor = {"open", Bind<&OpenDoor>};

}  // namespace moonring::lua
