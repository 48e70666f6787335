#ifndef MOONRING_TRAINER_REPORTS_CANVAS_H_
#define MOONRING_TRAINER_REPORTS_CANVAS_H_

// Drawing surface for plots, over cairo: 800 x 500 units, rendered at twice that resolution, with
// an inner frame that shows a range of x and y. Calls draw immediately; Png returns the image.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

struct _cairo;
struct _cairo_surface;

namespace moonring::trainer {

struct Colour {
  double red, green, blue, alpha = 1.0;
};

struct Range {
  double low, high;
};

class Canvas {
 public:
  static constexpr double kWidth = 800, kHeight = 500;
  static constexpr double kLeft = 78, kRight = 24, kTop = 48, kBottom = 58;  // margins of the frame
  static constexpr Colour kInk{0.13, 0.15, 0.19}, kFaint{0.40, 0.43, 0.48}, kGrid{0.90, 0.91, 0.93},
      kFrame{0.70, 0.72, 0.76}, kPaper{1, 1, 1};

  Canvas(Range x, Range y);

  // Convert data values to coordinates of the image.
  double X(double value) const {
    return kLeft + (value - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - kRight);
  }
  double Y(double value) const {
    return kHeight - kBottom - (value - y_.low) / (y_.high - y_.low) * (kHeight - kTop - kBottom);
  }

  void Line(double x0, double y0, double x1, double y1, Colour colour, double width);

  // align: 0 left, 0.5 centre, 1 right; y is the vertical centre of the text.
  void Text(const std::string& text, double x, double y, double size, double align, Colour colour,
            bool bold = false, bool upwards = false);

  // Draws a curve in data coordinates. Non-finite values interrupt it; an isolated point becomes a
  // dot.
  void Curve(const std::vector<double>& xs, const std::vector<double>& ys, Colour colour,
             double width);

  void Box(double x, double y, double width, double height, Colour fill);

  // Writes the title above the frame, and the axis labels.
  void Titles(const std::string& title, const std::string& x_label, const std::string& y_label);

  absl::Status Png(std::string& bytes);

 private:
  void Use(Colour colour);

  Range x_, y_;
  std::unique_ptr<_cairo_surface, void (*)(_cairo_surface*)> surface_;
  std::unique_ptr<_cairo, void (*)(_cairo*)> cairo_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_REPORTS_CANVAS_H_
