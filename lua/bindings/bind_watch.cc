// Lua bindings for `moonring watch`: the local HTTP server.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/torch_status.h"
#include "lua/binding/class.h"
#include "lua/binding/options.h"
#include "lua/bindings/bindings.h"
#include "lua/report/page_server.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

std::shared_ptr<PageServer> Listen(lua_State* L, Options options) {
  const int port = options.Get<int>("port", 0);
  options.Finish();
  const Host& host = HostOf(L);
  TORCH_CHECK_VALUE(port >= 0 && port <= 65535, "port: expected 0 to 65535, got ", port);
  if (host.sandbox)
    throw base::StatusError(absl::PermissionDeniedError("--sandbox: no port is opened"));
  if (host.embedded) {
    throw base::StatusError(
        absl::FailedPreconditionError("an embedded runtime serves no page: its signals and its "
                                      "threads are whose it is embedded in"));
  }
  return base::ValueOrThrow(PageServer::Listen(port));
}

// Pushes { id, path, tag } of the next request; nil if there was none in this time.
Pushed Next(lua_State* L, PageServer& server, double seconds) {
  TORCH_CHECK_VALUE(seconds >= 0 && seconds <= 3600, "seconds: expected 0 to 3600, got ", seconds);
  const std::optional<PageServer::Request> request = server.Next(seconds);
  if (!request.has_value()) return lua_pushnil(L), Pushed{1};
  lua_createtable(L, 0, 3);
  lua_pushnumber(L, static_cast<double>(request->id));
  lua_setfield(L, -2, "id");
  for (const auto& [name, text] : {std::pair("path", &request->path), {"tag", &request->tag}}) {
    lua_pushlstring(L, text->data(), text->size());
    lua_setfield(L, -2, name);
  }
  return {1};
}

void Answer(PageServer& server, int64_t id, Options options) {
  PageServer::Answer answer{.status = options.Get<int>("status", 200),
                            .type = options.Get<std::string>("type", "text/plain; charset=utf-8"),
                            .body = options.Get<std::string>("body", ""),
                            .tag = options.Get<std::string>("tag", "")};
  options.Finish();
  server.Reply(id, std::move(answer));
}

}  // namespace

void OpenWatch(lua_State* L) {
  Class<PageServer>::Register(
      L, "PageServer",
      {
          {"port", Bind<[](PageServer& server) { return server.port(); }>},
          {"token", Bind<[](PageServer& server) { return server.token(); }>},
          {"next", Bind<&Next>},
          {"answer", Bind<&Answer>},
          {"ended", Bind<[](PageServer& server) { return server.signal() != 0; }>},
          {"__tostring", Bind<[](PageServer& server) {
             return absl::StrCat("PageServer on 127.0.0.1:", server.port());
           }>},
      });
  PushModule(L, "moonring.watch", {{"listen", Bind<&Listen>}});
}

}  // namespace moonring::lua
