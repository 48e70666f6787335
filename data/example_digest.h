#ifndef MOONRING_DATA_EXAMPLE_DIGEST_H_
#define MOONRING_DATA_EXAMPLE_DIGEST_H_

#include <string>
#include <vector>

#include "data/example.h"

namespace moonring::data {

// 40 hexadecimal digits (SHA-1) of all ids, labels and tags in their order: equal where the
// examples are; empty where there are none. Cost: one pass.
std::string DigestOf(const std::vector<Example>& examples);

}  // namespace moonring::data

#endif  // MOONRING_DATA_EXAMPLE_DIGEST_H_
