// Lua bindings for models and data sets on a hub (lua/moonring/hub): the local cache, and
// downloads.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/torch_status.h"
#include "lua/binding/class.h"
#include "lua/binding/options.h"
#include "lua/bindings/bindings.h"
#include "lua/hub/hub.h"
#include "lua/hub/repository_folder.h"
#include "lua/hub/repository_lock.h"
#include "lua/hub/settings.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

// The object behind a repository's handle: the name, the folder in the cache, and the hub's
// settings.
struct Repository {
  HubName name;
  HubSettings settings;
  RepositoryFolder folder;
};

void CheckDownload(const Host& host, const Repository& repository) {
  if (host.sandbox) {
    base::ThrowIfError(absl::PermissionDeniedError(
        absl::StrCat("--sandbox: nothing is downloaded: '", repository.name.name, "'")));
  }
  if (repository.settings.offline) {
    base::ThrowIfError(absl::FailedPreconditionError(
        absl::StrCat(repository.settings.offline_by, " is set: nothing is downloaded")));
  }
}

// The Lua function hub.repository{ kind, name, cache, token }.
std::shared_ptr<Repository> OpenRepository(Options options) {
  HubName name{.kind = options.Require<std::string>("kind"),
               .name = options.Require<std::string>("name")};
  HubSettings settings = ReadHubSettings();
  if (const auto cache = options.Find<std::string>("cache")) settings.cache = *cache;
  if (const auto token = options.Find<std::string>("token")) {
    settings.token = *token;
    settings.token_from = "hf_hub_token";
  }
  options.Finish();
  RepositoryFolder folder =
      base::ValueOrThrow(RepositoryFolder::Create(settings.cache, name.kind, name.name));
  return std::make_shared<Repository>(
      Repository{std::move(name), std::move(settings), std::move(folder)});
}

// Checks that the argument at `index` is a function or absent.
void CheckCallback(lua_State* L, int index) {
  if (!lua_isnoneornil(L, index)) CheckType(L, index, LUA_TFUNCTION);
}

// Calls the function at `index`, if there is one, with the given numbers or text.
template <typename... Values>
void CallBack(lua_State* L, int index, const Values&... values) {
  if (lua_isnoneornil(L, index)) return;
  lua_pushvalue(L, index);
  const int count = (Value<Values>::Push(L, values) + ... + 0);
  lua_call(L, count, 0);
}

std::tuple<std::string, std::vector<std::string>> ListRepository(lua_State* L,
                                                                 Repository& repository,
                                                                 std::string revision) {
  const Host& host = HostOf(L);
  CheckDownload(host, repository);
  const std::unique_ptr<Hub> hub = base::ValueOrThrow(
      Hub::Open(repository.settings,
                {.say = [](const std::string&) {}, .stop = [&] { return IsCancelled(host); }}));
  HubListing listing = base::ValueOrThrow(hub->List(repository.name, revision));
  base::ThrowIfError(repository.folder.SetListing(listing.commit, listing.files));
  return {listing.commit, std::move(listing.files)};
}

// The Lua method repository:fetch(commit, files, on_progress, on_line).
int FetchFiles(lua_State* L) {
  const std::shared_ptr<Repository> repository = Class<Repository>::Read(L, 1);
  const auto commit = Value<std::string>::Read(L, 2);
  const auto files = Value<std::vector<std::string>>::Read(L, 3);
  CheckCallback(L, 4);
  CheckCallback(L, 5);
  const Host& host = HostOf(L);
  CheckDownload(host, *repository);
  const DownloadCalls calls = {
      .progress =
          [&](const DownloadProgress& at) { CallBack(L, 4, at.bytes, at.total_bytes, at.fetched); },
      .say = [&](const std::string& line) { CallBack(L, 5, line); },
      .stop = [&] { return IsCancelled(host); }};
  const std::unique_ptr<Hub> hub = base::ValueOrThrow(Hub::Open(repository->settings, calls));
  base::ThrowIfError(hub->Fetch(repository->name, repository->folder, commit, files));
  return 0;
}

// The Lua method repository:lock(on_wait): returns a handle; closing the handle releases the lock.
int Lock(lua_State* L) {
  const std::shared_ptr<Repository> repository = Class<Repository>::Read(L, 1);
  CheckCallback(L, 2);
  const Host& host = HostOf(L);
  const std::string path = base::ValueOrThrow(repository->folder.Lock("moonring"));
  return Value<std::unique_ptr<RepositoryLock>>::Push(
      L, base::ValueOrThrow(RepositoryLock::Take(
             path, [&] { return IsCancelled(host); }, [&] { CallBack(L, 2); })));
}

}  // namespace

void OpenHub(lua_State* L) {
  Class<RepositoryLock>::Register(L, "RepositoryLock", {});
  Class<Repository>::Register(
      L, "Repository",
      {
          {"commit", Bind<[](Repository& self, std::string revision) {
             return self.folder.Commit(revision);
           }>},
          {"set_commit", Bind<[](Repository& self, std::string revision, std::string commit) {
             return self.folder.SetCommit(revision, commit);
           }>},
          {"files",
           Bind<[](Repository& self, std::string commit) { return self.folder.Files(commit); }>},
          {"listing",
           Bind<[](Repository& self, std::string commit) { return self.folder.Listing(commit); }>},
          {"checkout",
           Bind<[](Repository& self, std::string commit) { return self.folder.Checkout(commit); }>},
          {"cache", Bind<[](Repository& self) { return self.settings.cache; }>},
          {"endpoint", Bind<[](Repository& self) { return self.settings.endpoint; }>},
          {"closed_by", Bind<[](lua_State* state, Repository& self) -> std::optional<std::string> {
             if (HostOf(state).sandbox) return "--sandbox";
             return self.settings.offline ? std::optional(self.settings.offline_by) : std::nullopt;
           }>},
          {"list", Bind<&ListRepository>},
          {"fetch", BindRaw<&FetchFiles, 5>},
          {"lock", BindRaw<&Lock, 2>},
          {"__tostring", Bind<[](Repository& self) {
             return absl::StrCat("Repository ", self.name.name, " (", self.name.kind, ") at ",
                                 self.settings.endpoint);
           }>},
      });
  PushModule(L, "moonring.hub", {{"repository", Bind<&OpenRepository>}});
}

}  // namespace moonring::lua
