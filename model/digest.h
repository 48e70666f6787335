#ifndef MOONRING_MODEL_DIGEST_H_
#define MOONRING_MODEL_DIGEST_H_

// A digest of a model's weights, forty hexadecimal characters. It is equal for two models if the
// names, shapes, dtypes and bytes of their weights are equal.
//
//   sha1 of the lines "<name> <dtype> [shape] <sha1 of each 16 MiB of its bytes>...", in the order
//       of the parameters, then `besides`
//
// Cost: one pass over the weights (about 0.4 GB a second) and 32 MiB of memory.

#include <string>

#include "absl/strings/string_view.h"
#include "base/autograd/parameter.h"

namespace moonring::model {

std::string Digest(const base::Parameters& parameters, absl::string_view besides = {});

}  // namespace moonring::model

#endif  // MOONRING_MODEL_DIGEST_H_
