#ifndef MOONRING_LUA_HTTP_CURL_LIBRARY_H_
#define MOONRING_LUA_HTTP_CURL_LIBRARY_H_

// libcurl, opened at run time: who asks nothing of a network needs none of it, and it brings a
// dozen libraries along (TLS, Kerberos, LDAP, ..), so no program links it.

#include <curl/curl.h>

#include "absl/status/statusor.h"

namespace moonring::lua {

// The functions that are called (http.cc), each as curl.h declares it.
struct CurlLibrary {
  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_multi_init) multi_init;
  decltype(&curl_multi_cleanup) multi_cleanup;
  decltype(&curl_multi_add_handle) multi_add_handle;
  decltype(&curl_multi_remove_handle) multi_remove_handle;
  decltype(&curl_multi_perform) multi_perform;
  decltype(&curl_multi_poll) multi_poll;
  decltype(&curl_multi_info_read) multi_info_read;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
};

// FAILED_PRECONDITION where this machine has none, or one of before 7.66 (2019). It stays loaded.
absl::StatusOr<CurlLibrary> OpenCurl();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HTTP_CURL_LIBRARY_H_
