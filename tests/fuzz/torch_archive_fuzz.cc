#include <cstdint>

#include "model/files/pickled_folder.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const moonring::fuzz::InputFile input({reinterpret_cast<const char*>(data), size});
  const auto file = moonring::model::PickledFile::Open(input.path());
  if (!file.ok()) return 0;
  for (const auto& [name, entry] : (*file)->entries()) {
    (*file)->Describe(name);
    (void)(*file)->Read(name);
  }
  return 0;
}
