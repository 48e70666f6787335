#include <cstdint>

#include "model/files/tensor_pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)moonring::model::ReadTensorPickle({reinterpret_cast<const char*>(data), size}, "input");
  return 0;
}
