#include "trainer/reports/canvas.h"

#include <cairo.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace moonring::trainer {
namespace {

constexpr double kPixelRatio = 2;

// Returns the family of all texts: a font of the machine. Without a configuration of fontconfig, as
// on a minimal system, cairo's own font, which it would take anyway; but fontconfig would print an
// error first.
const char* FontFamily() {
  const auto exists = [](const char* path) {
    std::error_code ignored;
    return path != nullptr && std::filesystem::exists(path, ignored);
  };
  const bool has_fonts = exists(std::getenv("FONTCONFIG_FILE")) ||
                         exists(std::getenv("FONTCONFIG_PATH")) || exists("/etc/fonts/fonts.conf");
  return has_fonts ? "sans-serif" : "@cairo:";
}

}  // namespace

Canvas::Canvas(Range x, Range y)
    : x_(x),
      y_(y),
      surface_(
          cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(kWidth * kPixelRatio),
                                     static_cast<int>(kHeight * kPixelRatio)),
          cairo_surface_destroy),
      cairo_(cairo_create(surface_.get()), cairo_destroy) {
  cairo_scale(cairo_.get(), kPixelRatio, kPixelRatio);
  Use(kPaper);
  cairo_paint(cairo_.get());
  cairo_set_line_join(cairo_.get(), CAIRO_LINE_JOIN_ROUND);
  cairo_set_line_cap(cairo_.get(), CAIRO_LINE_CAP_ROUND);
}

void Canvas::Use(Colour colour) {
  cairo_set_source_rgba(cairo_.get(), colour.red, colour.green, colour.blue, colour.alpha);
}

void Canvas::Line(double x0, double y0, double x1, double y1, Colour colour, double width) {
  Use(colour);
  cairo_set_line_width(cairo_.get(), width);
  cairo_move_to(cairo_.get(), x0, y0);
  cairo_line_to(cairo_.get(), x1, y1);
  cairo_stroke(cairo_.get());
}

void Canvas::Text(const std::string& text, double x, double y, double size, double align,
                  Colour colour, bool bold, bool upwards) {
  cairo_t* cairo = cairo_.get();
  static const char* const family = FontFamily();
  cairo_select_font_face(cairo, family, CAIRO_FONT_SLANT_NORMAL,
                         bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
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

void Canvas::Curve(const std::vector<double>& xs, const std::vector<double>& ys, Colour colour,
                   double width) {
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

void Canvas::Box(double x, double y, double width, double height, Colour fill) {
  Use(fill);
  cairo_rectangle(cairo_.get(), x, y, width, height);
  cairo_fill(cairo_.get());
}

absl::Status Canvas::Png(std::string& bytes) {
  cairo_surface_flush(surface_.get());
  const auto append = [](void* closure, const unsigned char* data, unsigned int length) {
    static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(data), length);
    return CAIRO_STATUS_SUCCESS;
  };
  cairo_status_t status = cairo_status(cairo_.get());
  if (status == CAIRO_STATUS_SUCCESS)
    status = cairo_surface_write_to_png_stream(surface_.get(), append, &bytes);
  if (status != CAIRO_STATUS_SUCCESS)
    return absl::InternalError(
        absl::StrCat("trainer.plots: cairo: ", cairo_status_to_string(status)));
  return absl::OkStatus();
}

void Canvas::Titles(const std::string& title, const std::string& x_label,
                    const std::string& y_label) {
  Text(title, kLeft, kTop / 2, 15, 0, kInk, /*bold=*/true);
  Text(x_label, (kLeft + kWidth - kRight) / 2, kHeight - 18, 13, 0.5, kInk);
  Text(y_label, 20, (kTop + kHeight - kBottom) / 2, 13, 0.5, kInk, /*bold=*/false,
       /*upwards=*/true);
}

}  // namespace moonring::trainer
