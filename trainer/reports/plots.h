#ifndef MOONRING_TRAINER_REPORTS_PLOTS_H_
#define MOONRING_TRAINER_REPORTS_PLOTS_H_

// Plots a training curve over steps as a PNG: the raw values in a pale colour, and the values
// smoothed as in LLaMA-Factory (and TensorBoard).
//
//   s_0 = x_0,  s_i = a s_{i-1} + (1 - a) x_i,  a = 1.8 (1 / (1 + e^(-0.05 n)) - 0.5) for n points
//
// Any series can be plotted: a single point, a constant one, one with gaps (NaN and infinity
// interrupt the lines).

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

// InvalidArgument if there is no finite value; otherwise errors of writing the file.
absl::Status WritePng(const Plot& plot, const std::string& path);

// Returns the smoothed values. Non-finite values give NaN and are skipped in the average.
std::vector<double> Smoothed(const std::vector<double>& values);

// Tick positions for an axis from `low` to `high`: about `wanted` ticks inside the range, at
// multiples of 1, 2 or 5 times a power of ten. `whole`: integers only. The labels have enough
// digits to distinguish neighbours.
struct Ticks {
  std::vector<double> at;
  std::vector<std::string> labels;
};
Ticks NiceTicks(double low, double high, int wanted, bool whole);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_REPORTS_PLOTS_H_
