// Lua bindings for `moonring watch`: the local HTTP server, and the process that answers its chat.

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/torch_status.h"
#include "lua/binding/class.h"
#include "lua/binding/options.h"
#include "lua/binding/set_field.h"
#include "lua/bindings/bindings.h"
#include "lua/report/give_way.h"
#include "lua/report/line_input.h"
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

// Pushes the values of a query as lists by name.
void PushQuery(lua_State* L, const PageServer::Request& request) {
  std::map<std::string, std::vector<std::string>> values;
  for (const auto& [name, value] : request.query) values[name].push_back(value);
  lua_createtable(L, 0, static_cast<int>(values.size()));
  for (const auto& [name, list] : values) {
    lua_pushlstring(L, name.data(), name.size());
    Value<std::vector<std::string>>::Push(L, list);
    lua_rawset(L, -3);
  }
}

// Pushes the next request as a table; nil if there was none in this time.
Pushed Next(lua_State* L, PageServer& server, double seconds) {
  TORCH_CHECK_VALUE(seconds >= 0 && seconds <= 3600, "seconds: expected 0 to 3600, got ", seconds);
  const std::optional<PageServer::Request> request = server.Next(seconds);
  if (!request.has_value()) return lua_pushnil(L), Pushed{1};
  lua_createtable(L, 0, 7);
  lua_pushnumber(L, static_cast<double>(request->id));
  lua_setfield(L, -2, "id");
  SetField<std::string>(L, "method", request->is_post ? "POST" : "GET");
  SetField(L, "path", request->path);
  SetField(L, "tag", request->tag);
  SetField(L, "type", request->type);
  SetField(L, "body", request->body);
  PushQuery(L, *request);
  lua_setfield(L, -2, "query");
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

void RefuseSandboxed(lua_State* L) {
  if (HostOf(L).sandbox)
    throw base::StatusError(absl::PermissionDeniedError("--sandbox: moonring watch is off"));
}

// Pushes { kind, size, modified } of a file or folder; nil if there is none.
Pushed Stat(lua_State* L, std::string path) {
  RefuseSandboxed(L);
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) {
    const int error = errno;
    if (error == ENOENT) return lua_pushnil(L), Pushed{1};
    const std::string words = absl::StrCat(path, ": ", std::strerror(error));
    base::ThrowIfError(error == EACCES ? absl::PermissionDeniedError(words)
                                       : absl::InvalidArgumentError(words));
  }
  lua_createtable(L, 0, 3);
  SetField<std::string>(
      L, "kind", S_ISDIR(found.st_mode) ? "folder" : S_ISREG(found.st_mode) ? "file" : "other");
  lua_pushnumber(L, static_cast<double>(found.st_size));
  lua_setfield(L, -2, "size");
  lua_pushnumber(L, static_cast<double>(found.st_mtim.tv_sec) +
                        1e-9 * static_cast<double>(found.st_mtim.tv_nsec));
  lua_setfield(L, -2, "modified");
  return {1};
}

// Returns the path of this program.
std::string Program(lua_State* L) {
  RefuseSandboxed(L);
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  if (size <= 0 || size == static_cast<ssize_t>(sizeof path))
    base::ThrowIfError(absl::NotFoundError("/proc/self/exe: cannot be read"));
  return std::string(path, size);
}

void YieldToOthers(lua_State* L) {
  if (!HostOf(L).sandbox && !HostOf(L).embedded) GiveWay();
}

void WorkIn(lua_State* L, std::string folder) {
  if (HostOf(L).sandbox || HostOf(L).embedded)
    throw base::StatusError(
        absl::PermissionDeniedError("only a program of its own changes folders"));
  if (chdir(folder.c_str()) != 0)
    base::ThrowIfError(absl::NotFoundError(absl::StrCat(folder, ": ", std::strerror(errno))));
}

std::shared_ptr<LineInput> Input(lua_State* L) {
  if (HostOf(L).sandbox || HostOf(L).embedded)
    throw base::StatusError(
        absl::PermissionDeniedError("only a program of its own reads requests"));
  return std::make_shared<LineInput>(STDIN_FILENO);
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
          {"begin", Bind<[](PageServer& server, int64_t id, std::string type) {
             server.Begin(id, std::move(type));
           }>},
          {"send", Bind<[](PageServer& server, int64_t id, std::string part) {
             return server.Send(id, part);
           }>},
          {"finish", Bind<[](PageServer& server, int64_t id) { server.Finish(id); }>},
          {"ended", Bind<[](PageServer& server) { return server.signal() != 0; }>},
          {"__tostring", Bind<[](PageServer& server) {
             return absl::StrCat("PageServer on 127.0.0.1:", server.port());
           }>},
      });
  Class<LineInput>::Register(
      L, "LineInput",
      {
          {"take", Bind<[](LineInput& input, double seconds) { return input.Take(seconds); }>},
          {"ended", Bind<[](LineInput& input) { return input.ended(); }>},
      });
  PushModule(L, "moonring.watch",
             {
                 {"listen", Bind<&Listen>},
                 {"stat", Bind<&Stat>},
                 {"program", Bind<&Program>},
                 {"give_way", Bind<&YieldToOthers>},
                 {"work_in", Bind<&WorkIn>},
                 {"input", Bind<&Input>},
             });
}

}  // namespace moonring::lua
