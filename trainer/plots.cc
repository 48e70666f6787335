#include "trainer/plots.h"

#include <cairo.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "comm/output_file.h"
#include "comm/status_macros.h"

namespace moonring::trainer {
namespace {

// Everything is laid out at 800 x 500 and drawn at twice that, for dense screens.
constexpr double kWidth = 800, kHeight = 500, kPixelRatio = 2;
constexpr double kLeft = 78, kRight = 24, kTop = 48, kBottom = 58;

struct Colour {
  double red, green, blue, alpha = 1.0;
};
constexpr Colour kInk{0.13, 0.15, 0.19}, kFaint{0.40, 0.43, 0.48}, kGrid{0.90, 0.91, 0.93}, kFrame{0.70, 0.72, 0.76}, kPaper{1, 1, 1};
constexpr Colour kRaw{0.12, 0.47, 0.71, 0.38}, kSmooth{0.12, 0.47, 0.71};

struct Range {
  double low, high;
};

// Of the finite values, with a margin; a constant gets a range around it.
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

class Canvas {
 public:
  Canvas(Range x, Range y)
      : x_(x),
        y_(y),
        surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(kWidth * kPixelRatio), static_cast<int>(kHeight * kPixelRatio)),
                 cairo_surface_destroy),
        cairo_(cairo_create(surface_.get()), cairo_destroy) {
    cairo_scale(cairo_.get(), kPixelRatio, kPixelRatio);
    Use(kPaper);
    cairo_paint(cairo_.get());
    cairo_set_line_join(cairo_.get(), CAIRO_LINE_JOIN_ROUND);
    cairo_set_line_cap(cairo_.get(), CAIRO_LINE_CAP_ROUND);
  }

  double X(double value) const { return kLeft + (value - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - kRight); }
  double Y(double value) const { return kHeight - kBottom - (value - y_.low) / (y_.high - y_.low) * (kHeight - kTop - kBottom); }

  void Line(double x0, double y0, double x1, double y1, Colour colour, double width) {
    Use(colour);
    cairo_set_line_width(cairo_.get(), width);
    cairo_move_to(cairo_.get(), x0, y0);
    cairo_line_to(cairo_.get(), x1, y1);
    cairo_stroke(cairo_.get());
  }

  // align: 0 left, 0.5 middle, 1 right; y is the text's middle.
  void Text(const std::string& text, double x, double y, double size, double align, Colour colour, bool bold = false, bool upwards = false) {
    cairo_t* cairo = cairo_.get();
    cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL, bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, size);
    cairo_text_extents_t extents;
    cairo_text_extents(cairo, text.c_str(), &extents);
    Use(colour);
    cairo_save(cairo);
    cairo_translate(cairo, x, y);
    if (upwards) cairo_rotate(cairo, -M_PI / 2);
    cairo_move_to(cairo, -extents.x_advance * align, size * 0.36);
    cairo_show_text(cairo, text.c_str());
    cairo_restore(cairo);
  }

  // Broken at what is not finite; a point that has no neighbour on either side becomes a dot.
  void Curve(const std::vector<double>& xs, const std::vector<double>& ys, Colour colour, double width) {
    cairo_t* cairo = cairo_.get();
    Use(colour);
    cairo_set_line_width(cairo, width);
    const auto drawn = [&](size_t i) { return i < ys.size() && std::isfinite(ys[i]); };
    for (size_t i = 0; i < ys.size(); ++i) {
      if (!drawn(i)) continue;
      const bool after = i > 0 && drawn(i - 1);
      if (after) {
        cairo_line_to(cairo, X(xs[i]), Y(ys[i]));
      } else {
        cairo_move_to(cairo, X(xs[i]), Y(ys[i]));
      }
      if (drawn(i + 1)) continue;
      cairo_stroke(cairo);
      if (after) continue;
      cairo_arc(cairo, X(xs[i]), Y(ys[i]), width * 1.6, 0, 2 * M_PI);
      cairo_fill(cairo);
    }
  }

  void Box(double x, double y, double width, double height, Colour fill) {
    Use(fill);
    cairo_rectangle(cairo_.get(), x, y, width, height);
    cairo_fill(cairo_.get());
  }

  absl::Status Png(std::string& bytes) {
    cairo_surface_flush(surface_.get());
    const auto append = [](void* closure, const unsigned char* data, unsigned int length) {
      static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(data), length);
      return CAIRO_STATUS_SUCCESS;
    };
    cairo_status_t status = cairo_status(cairo_.get());
    if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_write_to_png_stream(surface_.get(), append, &bytes);
    if (status != CAIRO_STATUS_SUCCESS) return absl::InternalError(absl::StrCat("trainer.plots: cairo: ", cairo_status_to_string(status)));
    return absl::OkStatus();
  }

 private:
  void Use(Colour colour) { cairo_set_source_rgba(cairo_.get(), colour.red, colour.green, colour.blue, colour.alpha); }

  Range x_, y_;
  std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t*)> surface_;
  std::unique_ptr<cairo_t, void (*)(cairo_t*)> cairo_;
};

void DrawAxes(Canvas& canvas, const Plot& plot, Range x, Range y) {
  const Ticks x_ticks = NiceTicks(x.low, x.high, 8, /*whole=*/true), y_ticks = NiceTicks(y.low, y.high, 6, /*whole=*/false);
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  for (size_t i = 0; i < y_ticks.at.size(); ++i) {
    canvas.Line(kLeft, canvas.Y(y_ticks.at[i]), right, canvas.Y(y_ticks.at[i]), kGrid, 1);
    canvas.Text(y_ticks.labels[i], kLeft - 9, canvas.Y(y_ticks.at[i]), 12, 1, kFaint);
  }
  for (size_t i = 0; i < x_ticks.at.size(); ++i) {
    canvas.Line(canvas.X(x_ticks.at[i]), kTop, canvas.X(x_ticks.at[i]), bottom, kGrid, 1);
    canvas.Line(canvas.X(x_ticks.at[i]), bottom, canvas.X(x_ticks.at[i]), bottom + 4, kFrame, 1);
    canvas.Text(x_ticks.labels[i], canvas.X(x_ticks.at[i]), bottom + 16, 12, 0.5, kFaint);
  }
  canvas.Line(kLeft, bottom, right, bottom, kFrame, 1);
  canvas.Line(kLeft, kTop, kLeft, bottom, kFrame, 1);
  canvas.Text(plot.title, kLeft, kTop / 2, 15, 0, kInk, /*bold=*/true);
  canvas.Text(plot.x_label, (kLeft + right) / 2, kHeight - 18, 13, 0.5, kInk);
  canvas.Text(plot.y_label, 20, (kTop + bottom) / 2, 13, 0.5, kInk, /*bold=*/false, /*upwards=*/true);
}

// Above, on the side where the curve is low.
void DrawLegend(Canvas& canvas, bool falling) {
  const double left = falling ? kWidth - kRight - 122 : kLeft + 10, top = kTop + 10;
  canvas.Box(left, top, 112, 48, {1, 1, 1, 0.88});
  canvas.Line(left + 10, top + 15, left + 34, top + 15, kRaw, 1.5);
  canvas.Text("original", left + 44, top + 15, 12, 0, kInk);
  canvas.Line(left + 10, top + 34, left + 34, top + 34, kSmooth, 2.2);
  canvas.Text("smoothed", left + 44, top + 34, 12, 0, kInk);
}

}  // namespace

std::vector<double> Smoothed(const std::vector<double>& values) {
  const double weight = 1.8 * (1.0 / (1.0 + std::exp(-0.05 * static_cast<double>(values.size()))) - 0.5);
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
    const double value = index == 0.0 ? 0.0 : index * step;  // no "-0"
    ticks.at.push_back(value);
    ticks.labels.push_back(decimals > 4 || std::abs(value) >= 1e7 ? absl::StrFormat("%.4g", value) : absl::StrFormat("%.*f", decimals, value));
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
    return absl::InvalidArgumentError(absl::StrCat("trainer.plots: ", path, ": no finite ", plot.y_label, " to draw among ", ys.size(), " points"));
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
  return comm::WithContext(comm::WriteWhole(path, bytes), "trainer.plots");
}

}  // namespace moonring::trainer
