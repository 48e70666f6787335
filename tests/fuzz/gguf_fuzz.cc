// Fuzzes a whole GGUF file: its header, its metadata as config.json and tokenizer files, and its
// dequantized tensors.
#include <cstdint>

#include "model/gguf/gguf.h"
#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_tokenizer.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace moonring::model;
  const moonring::fuzz::InputFile input({reinterpret_cast<const char*>(data), size});
  const auto opened = GgufFile::Open(input.path());
  if (!opened.ok()) return 0;
  const GgufFile& file = **opened;
  for (const auto& [key, value] : file.metadata()) {
    (void)file.Int(key);
    (void)file.Number(key);
    (void)file.Strings(key);
    (void)file.Ints(key);
    (void)file.Numbers(key);
  }
  (void)ConfigFromGguf(file);
  (void)TokenizerFilesFromGguf(file);
  for (const auto& [name, tensor] : file.tensors()) (void)file.Read(name);
  return 0;
}
