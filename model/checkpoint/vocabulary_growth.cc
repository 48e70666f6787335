#include "model/checkpoint/vocabulary_growth.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "kernels/random/counter_random.h"

namespace moonring::model {
namespace {

constexpr int64_t kMultiple = 64;     // the number of rows is a multiple of it, for fast matmuls
constexpr int64_t kChunkRows = 1024;  // rows that are in fp64 at a time

// The mean of the rows. Adds row by row, so that the order of the sum does not depend on the number
// of threads or the vector width.
std::vector<double> MeanRow(const at::Tensor& table_VD) {
  const int64_t height = table_VD.size(0), width = table_VD.size(1);
  std::vector<double> mean(width, 0.0);
  for (int64_t begin = 0; begin < height; begin += kChunkRows) {
    const int64_t rows = std::min(kChunkRows, height - begin);
    const at::Tensor chunk = table_VD.narrow(0, begin, rows).to(at::kDouble).contiguous();
    const double* element = chunk.const_data_ptr<double>();
    for (int64_t row = 0; row < rows; ++row) {
      for (double& sum : mean) sum += *element++;
    }
  }
  for (double& sum : mean) sum /= static_cast<double>(height);
  return mean;
}

}  // namespace

int64_t GrownHeight(int64_t tokens) { return (tokens + kMultiple - 1) / kMultiple * kMultiple; }

at::Tensor WithNewRows(const at::Tensor& table_VD, int64_t rows, uint64_t seed,
                       absl::string_view name) {
  TORCH_CHECK(table_VD.dim() == 2 && table_VD.size(0) > 0 && rows >= table_VD.size(0), name, ": ",
              rows, " rows expected of a table of shape ", table_VD.sizes());
  const int64_t added = rows - table_VD.size(0), width = table_VD.size(1);
  if (added == 0) return table_VD;
  const std::vector<double> mean = MeanRow(table_VD);
  const double deviation = 1.0 / std::sqrt(static_cast<double>(width));
  const at::Tensor uniform = kernels::InitialUniform(seed, name, {added * width, 2});
  at::Tensor fresh = at::empty({added, width}, at::kDouble);
  const float* u = uniform.const_data_ptr<float>();
  double* element = fresh.mutable_data_ptr<double>();
  // Normal numbers by the Box-Muller transform; only its cosine value is used.
  for (int64_t i = 0; i < added * width; ++i, u += 2) {
    const double normal =
        std::sqrt(-2.0 * std::log(1.0 - u[0])) * std::cos(2.0 * std::numbers::pi * u[1]);
    element[i] = mean[i % width] + deviation * normal;
  }
  return at::cat({table_VD, fresh.to(table_VD.scalar_type())});
}

}  // namespace moonring::model
