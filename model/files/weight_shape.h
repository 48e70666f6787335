#ifndef MOONRING_MODEL_FILES_WEIGHT_SHAPE_H_
#define MOONRING_MODEL_FILES_WEIGHT_SHAPE_H_

// A weight as it is published: its Hugging Face name and its shape, [out, in] for a matrix.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

namespace moonring::model {

struct WeightShape {
  std::string name;
  std::vector<int64_t> shape;
  bool linear = false;  // the matrix of a linear module in a block: adapters go on these
  bool wide = false;    // computed with in fp32 at least, whatever products are in
  bool learns = true;   // false: no training changes it
};

inline std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_WEIGHT_SHAPE_H_
