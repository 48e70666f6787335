#include "base/text/pcre2_handles.h"

#include "absl/strings/str_cat.h"

namespace moonring::base {

std::string Pcre2Message(int error) {
  PCRE2_UCHAR text[256];
  return pcre2_get_error_message(error, text, sizeof(text)) < 0
             ? absl::StrCat("PCRE2 error ", error)
             : reinterpret_cast<const char*>(text);
}

}  // namespace moonring::base
