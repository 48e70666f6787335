#ifndef MOONRING_TRAINER_PLOTS_H_
#define MOONRING_TRAINER_PLOTS_H_

// A training curve as a PNG: the numbers as they are, pale, and smoothed as LLaMA-Factory (and
// TensorBoard) smooths them, over steps.
//
//   s_0 = x_0,  s_i = a s_{i-1} + (1 - a) x_i,  a = 1.8 (1 / (1 + e^(-0.05 n)) - 0.5) for n points
//
// Any series will do: one point, a constant one, one with gaps (NaN, infinity: the lines break and
// go on after them).

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace moonring::trainer {

struct Plot {
  std::string title;
  std::string x_label = "step";
  std::string y_label = "loss";
  std::vector<std::pair<double, double>> points;  // (step, value), steps ascending
};

// InvalidArgument where there is nothing finite to draw; else of the file.
absl::Status WritePng(const Plot& plot, const std::string& path);

// The smoothed values; NaN where the value is not finite, and such values are skipped in the
// average.
std::vector<double> Smoothed(const std::vector<double>& values);

// Where the marks of an axis from `low` to `high` go: about `wanted` of them, at multiples of 1, 2
// or 5 times a power of ten, all within. `whole`: integers only. And how to write them: digits
// enough to tell neighbours apart.
struct Ticks {
  std::vector<double> at;
  std::vector<std::string> labels;
};
Ticks NiceTicks(double low, double high, int wanted, bool whole);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_PLOTS_H_
