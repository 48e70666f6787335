#ifndef MOONRING_MODEL_FILES_WEIGHT_SHAPE_H_
#define MOONRING_MODEL_FILES_WEIGHT_SHAPE_H_

// A published weight: its Hugging Face name and its shape, [out, in] for a matrix.

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
  bool linear = false;  // the matrix of a linear module in a block, which may have an adapter
  bool wide = false;    // used in at least fp32, whatever the matmul dtype is
  bool learns = true;   // false: never trained
};

inline std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_WEIGHT_SHAPE_H_
