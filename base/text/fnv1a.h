#ifndef MOONRING_BASE_TEXT_FNV1A_H_
#define MOONRING_BASE_TEXT_FNV1A_H_

// A hash of a text that is the same in every build and on every machine: 64-bit FNV-1a (Fowler,
// Noll and Vo; draft-eastlake-fnv). Not secure against chosen texts.

#include <cstdint>

#include "absl/strings/string_view.h"

namespace moonring::base {

inline uint64_t Fnv1a(absl::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

}  // namespace moonring::base

#endif  // MOONRING_BASE_TEXT_FNV1A_H_
