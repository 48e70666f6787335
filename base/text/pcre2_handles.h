#ifndef MOONRING_BASE_TEXT_PCRE2_HANDLES_H_
#define MOONRING_BASE_TEXT_PCRE2_HANDLES_H_

// Smart pointers for PCRE2's objects, and its error messages.

#include <memory>
#include <string>

#include <pcre2.h>

namespace moonring::base {

template <auto release>
struct Pcre2Release {
  template <class T>
  void operator()(T* p) const {
    release(p);
  }
};
using Pcre2Code = std::unique_ptr<pcre2_code, Pcre2Release<pcre2_code_free>>;
using Pcre2CompileContext =
    std::unique_ptr<pcre2_compile_context, Pcre2Release<pcre2_compile_context_free>>;
using Pcre2MatchContext =
    std::unique_ptr<pcre2_match_context, Pcre2Release<pcre2_match_context_free>>;
using Pcre2MatchData = std::unique_ptr<pcre2_match_data, Pcre2Release<pcre2_match_data_free>>;
using Pcre2JitStack = std::unique_ptr<pcre2_jit_stack, Pcre2Release<pcre2_jit_stack_free>>;

std::string Pcre2Message(int error);

}  // namespace moonring::base

#endif  // MOONRING_BASE_TEXT_PCRE2_HANDLES_H_
