#include <cstdint>
#include <string>

#include "trainer/checkpoint/checkpoint_manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto manifest =
      moonring::trainer::ParseManifest(std::string(reinterpret_cast<const char*>(data), size));
  if (!manifest.ok()) return 0;
  // A manifest that was read, written and read again is unchanged.
  const auto again = moonring::trainer::ParseManifest(moonring::trainer::ManifestText(*manifest));
  if (!again.ok() || again->step != manifest->step || again->files != manifest->files)
    __builtin_trap();
  return 0;
}
