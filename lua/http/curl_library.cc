#include "lua/http/curl_library.h"

#include <dlfcn.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace moonring::lua {
namespace {

// Names of libcurl's shared library. The second is Debian's variant, built with GnuTLS.
constexpr const char* kNames[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

absl::Status Missing(const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat(
      "http and https are spoken by libcurl (libcurl.so.4, Debian's libcurl4): ", why));
}

}  // namespace

absl::StatusOr<CurlLibrary> OpenCurl() {
  void* library = nullptr;
  std::string why;
  for (const char* name : kNames) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    if (why.empty()) why = dlerror();
  }
  if (library == nullptr) return Missing(why);
  CurlLibrary curl{};
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) missing = name;
  };
  find(curl.global_init, "curl_global_init");
  find(curl.easy_init, "curl_easy_init");
  find(curl.easy_cleanup, "curl_easy_cleanup");
  find(curl.easy_setopt, "curl_easy_setopt");
  find(curl.easy_getinfo, "curl_easy_getinfo");
  find(curl.easy_strerror, "curl_easy_strerror");
  find(curl.multi_init, "curl_multi_init");
  find(curl.multi_cleanup, "curl_multi_cleanup");
  find(curl.multi_add_handle, "curl_multi_add_handle");
  find(curl.multi_remove_handle, "curl_multi_remove_handle");
  find(curl.multi_perform, "curl_multi_perform");
  find(curl.multi_poll, "curl_multi_poll");
  find(curl.multi_info_read, "curl_multi_info_read");
  find(curl.slist_append, "curl_slist_append");
  find(curl.slist_free_all, "curl_slist_free_all");
  if (!missing.empty()) return Missing(absl::StrCat("this one is too old, it has no ", missing));
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return Missing("it does not start");
  return curl;
}

}  // namespace moonring::lua
