#include "trainer/reports/plots.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/files/output_file.h"
#include "base/status/status_macros.h"
#include "trainer/reports/canvas.h"

namespace moonring::trainer {
namespace {

constexpr Colour kRaw{0.12, 0.47, 0.71, 0.38}, kSmooth{0.12, 0.47, 0.71};

// The range of the finite values plus a margin; a constant series gets a range around its value.
Range Padded(const std::vector<double>& values, double margin) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const double least = std::max({std::abs(low), std::abs(high), 1e-12}) * 1e-9;
  if (high - low < least) {
    const double half = low == 0.0 ? 1.0 : std::abs(low) * 0.1;
    return {low - half, high + half};
  }
  return {low - (high - low) * margin, high + (high - low) * margin};
}

void DrawAxes(Canvas& canvas, const Plot& plot, Range x, Range y) {
  const Ticks x_ticks = NiceTicks(x.low, x.high, 8, /*whole=*/true),
              y_ticks = NiceTicks(y.low, y.high, 6, /*whole=*/false);
  const double bottom = Canvas::kHeight - Canvas::kBottom, right = Canvas::kWidth - Canvas::kRight;
  for (size_t i = 0; i < y_ticks.at.size(); ++i) {
    canvas.Line(Canvas::kLeft, canvas.Y(y_ticks.at[i]), right, canvas.Y(y_ticks.at[i]),
                Canvas::kGrid, 1);
    canvas.Text(y_ticks.labels[i], Canvas::kLeft - 9, canvas.Y(y_ticks.at[i]), 12, 1,
                Canvas::kFaint);
  }
  for (size_t i = 0; i < x_ticks.at.size(); ++i) {
    canvas.Line(canvas.X(x_ticks.at[i]), Canvas::kTop, canvas.X(x_ticks.at[i]), bottom,
                Canvas::kGrid, 1);
    canvas.Line(canvas.X(x_ticks.at[i]), bottom, canvas.X(x_ticks.at[i]), bottom + 4,
                Canvas::kFrame, 1);
    canvas.Text(x_ticks.labels[i], canvas.X(x_ticks.at[i]), bottom + 16, 12, 0.5, Canvas::kFaint);
  }
  canvas.Line(Canvas::kLeft, bottom, right, bottom, Canvas::kFrame, 1);
  canvas.Line(Canvas::kLeft, Canvas::kTop, Canvas::kLeft, bottom, Canvas::kFrame, 1);
  canvas.Titles(plot.title, plot.x_label, plot.y_label);
}

// The legend is at the top, on the side where the curve is low.
void DrawLegend(Canvas& canvas, bool falling) {
  const double left = falling ? Canvas::kWidth - Canvas::kRight - 122 : Canvas::kLeft + 10,
               top = Canvas::kTop + 10;
  canvas.Box(left, top, 112, 48, {1, 1, 1, 0.88});
  canvas.Line(left + 10, top + 15, left + 34, top + 15, kRaw, 1.5);
  canvas.Text("original", left + 44, top + 15, 12, 0, Canvas::kInk);
  canvas.Line(left + 10, top + 34, left + 34, top + 34, kSmooth, 2.2);
  canvas.Text("smoothed", left + 44, top + 34, 12, 0, Canvas::kInk);
}

}  // namespace

std::vector<double> Smoothed(const std::vector<double>& values) {
  const double weight =
      1.8 * (1.0 / (1.0 + std::exp(-0.05 * static_cast<double>(values.size()))) - 0.5);
  std::vector<double> smoothed;
  double last = std::nan("");
  for (const double value : values) {
    if (!std::isfinite(value)) {
      smoothed.push_back(std::nan(""));
      continue;
    }
    last = std::isnan(last) ? value : last * weight + (1.0 - weight) * value;
    smoothed.push_back(last);
  }
  return smoothed;
}

Ticks NiceTicks(double low, double high, int wanted, bool whole) {
  const double raw = (high - low) / std::max(1, wanted);
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double multiple : {5.0, 2.0, 1.0}) {
    if (multiple * power >= raw * (1 - 1e-9)) step = multiple * power;
  }
  if (whole) step = std::max(1.0, step);
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  Ticks ticks;
  for (double index = std::ceil(low / step - 1e-9); index * step <= high + step * 1e-9; ++index) {
    const double value = index == 0.0 ? 0.0 : index * step;  // avoids "-0"
    ticks.at.push_back(value);
    ticks.labels.push_back(decimals > 4 || std::abs(value) >= 1e7
                               ? absl::StrFormat("%.4g", value)
                               : absl::StrFormat("%.*f", decimals, value));
  }
  return ticks;
}

absl::Status WritePng(const Plot& plot, const std::string& path) {
  std::vector<double> xs, ys;
  for (const auto& [x, y] : plot.points) {
    xs.push_back(x);
    ys.push_back(y);
  }
  if (std::none_of(ys.begin(), ys.end(), [](double y) { return std::isfinite(y); })) {
    return absl::InvalidArgumentError(absl::StrCat("trainer.plots: ", path, ": no finite ",
                                                   plot.y_label, " to draw among ", ys.size(),
                                                   " points"));
  }
  Range x = Padded(xs, 0.0);
  if (xs.front() == xs.back()) x = {xs.front() - 1, xs.front() + 1};
  const Range y = Padded(ys, 0.06);
  Canvas canvas(x, y);
  DrawAxes(canvas, plot, x, y);
  canvas.Curve(xs, ys, kRaw, 1.5);
  const std::vector<double> smoothed = Smoothed(ys);
  canvas.Curve(xs, smoothed, kSmooth, 2.2);
  DrawLegend(canvas, /*falling=*/!(smoothed.back() > smoothed.front()));
  std::string bytes;
  RETURN_IF_ERROR(canvas.Png(bytes));
  return base::WithContext(base::WriteWhole(path, bytes), "trainer.plots");
}

}  // namespace moonring::trainer
