#ifndef MOONRING_DATA_EXAMPLE_DIGEST_H_
#define MOONRING_DATA_EXAMPLE_DIGEST_H_

#include <string>
#include <vector>

#include "data/example.h"

namespace moonring::data {

// SHA-1, as 40 hexadecimal digits, of all ids, labels and tags in order. Equal examples have equal
// digests; empty without examples. Cost: one pass.
std::string DigestOf(const std::vector<Example>& examples);

}  // namespace moonring::data

#endif  // MOONRING_DATA_EXAMPLE_DIGEST_H_
