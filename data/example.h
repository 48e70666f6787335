// A training example: what `preprocess` writes on one line.
#ifndef MOONRING_DATA_EXAMPLE_H_
#define MOONRING_DATA_EXAMPLE_H_

#include <cstdint>
#include <vector>

namespace moonring::data {

// The label of a token that is not learnt; equals comm::kIgnore.
inline constexpr int32_t kNotLearnt = -100;

// Two arrays of one length. labels are unshifted: labels[t] belongs to ids[t], and is learnt at the position before it.
struct Example {
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_EXAMPLE_H_
