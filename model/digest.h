#ifndef MOONRING_MODEL_DIGEST_H_
#define MOONRING_MODEL_DIGEST_H_

// What a model's weights are called in forty characters: equal where names, shapes, dtypes and
// bytes are.
//
//   sha1 of the lines "<name> <dtype> [shape] <sha1 of each 16 MiB of its bytes>...", in the order
//       of the parameters, then `besides`
//
// Costs one reading of the weights (about 0.4 GB a second) and 32 MiB.

#include <string>

#include "absl/strings/string_view.h"
#include "base/autograd/parameter.h"

namespace moonring::model {

std::string Digest(const base::Parameters& parameters, absl::string_view besides = {});

}  // namespace moonring::model

#endif  // MOONRING_MODEL_DIGEST_H_
