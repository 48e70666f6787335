#ifndef MOONRING_MODEL_GGUF_GGUF_TOKEN_TYPE_H_
#define MOONRING_MODEL_GGUF_GGUF_TOKEN_TYPE_H_

#include <cstdint>

namespace moonring::model {

// Values of tokenizer.ggml.token_type.
enum class GgufTokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // a special token
  kUserDefined = 4,  // an added token that is not special
  kUnused = 5,
  kByte = 6
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_TOKEN_TYPE_H_
