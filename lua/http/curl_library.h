#ifndef MOONRING_LUA_HTTP_CURL_LIBRARY_H_
#define MOONRING_LUA_HTTP_CURL_LIBRARY_H_

// Loads libcurl at run time. Programs are not linked with libcurl, because it depends on a dozen
// further libraries (TLS, Kerberos, LDAP, ..) that are only needed for network requests.

#include <curl/curl.h>

#include "absl/status/statusor.h"

namespace moonring::lua {

// The functions that http.cc calls, as declared in curl.h.
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

// Loads the library and never unloads it. FAILED_PRECONDITION if it is not installed, or older than
// 7.66 (2019).
absl::StatusOr<CurlLibrary> OpenCurl();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HTTP_CURL_LIBRARY_H_
