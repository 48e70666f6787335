#include "trainer/reports/plots.h"

#include <cairo.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>

#include <gtest/gtest.h>

#include "trainer/reports/heat_map.h"

namespace moonring::trainer {
namespace {

std::string Path(const std::string& name) {
  const char* folder = std::getenv("MOONRING_PLOTS");  // where to keep them, to look at
  return std::string(folder != nullptr ? folder : std::getenv("TEST_TMPDIR")) + "/" + name + ".png";
}

// Returns the number of pixels in the smoothed curve's color, or close to it.
int64_t CurvePixels(const std::string& path) {
  const std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t*)> image(
      cairo_image_surface_create_from_png(path.c_str()), cairo_surface_destroy);
  EXPECT_EQ(cairo_surface_status(image.get()), CAIRO_STATUS_SUCCESS);
  EXPECT_EQ(cairo_image_surface_get_width(image.get()), 1600);
  EXPECT_EQ(cairo_image_surface_get_height(image.get()), 1000);
  int64_t count = 0;
  for (int row = 0; row < 1000; ++row) {
    const auto* pixels =
        reinterpret_cast<const uint32_t*>(cairo_image_surface_get_data(image.get()) +
                                          row * cairo_image_surface_get_stride(image.get()));
    for (int column = 0; column < 1600; ++column) {
      const int red = pixels[column] >> 16 & 255, green = pixels[column] >> 8 & 255,
                blue = pixels[column] & 255;
      count += std::abs(red - 31) < 12 && std::abs(green - 120) < 12 && std::abs(blue - 181) < 12;
    }
  }
  return count;
}

std::vector<std::pair<double, double>> Falling(int points) {
  std::vector<std::pair<double, double>> series;
  for (int i = 1; i <= points; ++i)
    series.emplace_back(i, 0.9 + 1.6 * std::exp(-i / (points / 4.0)) +
                               0.12 * std::sin(i * 12.9898) * std::cos(i * 4.1));
  return series;
}

TEST(PlotsTest, DrawsWhatComes) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<std::string, Plot>> plots = {
      {"falling", {.title = "Training loss of runs/quickstart", .points = Falling(120)}},
      {"long", {.title = "Training loss", .points = Falling(4000)}},
      {"one", {.title = "One point", .points = {{1, 2.5}}}},
      {"two", {.title = "Two points", .points = {{5, 2.5}, {10, 2.25}}}},
      {"constant", {.title = "Constant", .points = {{1, 0.693147}, {2, 0.693147}, {3, 0.693147}}}},
      {"zero", {.title = "Zero", .points = {{1, 0.0}, {2, 0.0}}}},
      {"gaps",
       {.title = "Gaps",
        .points = {{1, 3.0}, {2, 2.8}, {3, nan}, {4, 2.5}, {5, infinity}, {6, 2.2}, {7, 2.1}}}},
      {"tiny",
       {.title = "Learning rate",
        .y_label = "learning rate",
        .points = {{1, 1e-6}, {2, 2e-6}, {3, 5e-6}}}},
      {"huge", {.title = "Huge", .points = {{1, 1e9}, {2, 4e9}, {3, -2e9}}}},
  };
  for (const auto& [name, plot] : plots) {
    SCOPED_TRACE(name);
    const absl::Status status = WritePng(plot, Path(name));
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_GT(CurvePixels(Path(name)), 60 + 100);  // more than the legend's stroke
  }
}

TEST(PlotsTest, RefusesNothingAndNowhere) {
  EXPECT_EQ(WritePng({.points = {}}, Path("none")).message(),
            "trainer.plots: " + Path("none") + ": no finite loss to draw among 0 points");
  EXPECT_FALSE(WritePng({.points = {{1, std::nan("")}}}, Path("none")).ok());
  EXPECT_EQ(WritePng({.points = {{1, 1.0}}}, "/nowhere/x.png").code(), absl::StatusCode::kNotFound);
}

// Each cell is a box: the middle of the box (above its number) has the color of its share; a cell
// that is NaN is white.
TEST(HeatMapTest, ColoursEachCell) {
  const std::string path = Path("heat_map");
  ASSERT_TRUE(WritePng(HeatMap{.title = "needle",
                               .x_label = "depth",
                               .y_label = "tokens",
                               .columns = {"0%", "50%", "100%"},
                               .rows = {"512", "1024"},
                               .shares = {{0.0, 0.5, 1.0}, {1.0, std::nan(""), 0.0}}},
                       path)
                  .ok());
  const std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t*)> image(
      cairo_image_surface_create_from_png(path.c_str()), cairo_surface_destroy);
  ASSERT_EQ(cairo_surface_status(image.get()), CAIRO_STATUS_SUCCESS);
  const auto at =
      [&](int row,
          int column) {  // 800 x 500 units at twice that; the frame is 78 to 776 and 48 to 442
        const int x = static_cast<int>(2 * (78 + (column + 0.5) * (776 - 78) / 3)),
                  y = static_cast<int>(2 * (48 + (row + 0.2) * (442 - 48) / 2));
        return reinterpret_cast<const uint32_t*>(
                   cairo_image_surface_get_data(image.get()) +
                   y * cairo_image_surface_get_stride(image.get()))[x] &
               0xFFFFFF;
      };
  EXPECT_EQ(at(0, 0), at(1, 2));
  EXPECT_EQ(at(0, 2), at(1, 0));
  EXPECT_EQ(at(1, 1), 0xFFFFFFu);
  EXPECT_GT(at(0, 0) >> 16 & 255, 200u);                            // red
  EXPECT_GT(at(0, 2) >> 8 & 255, at(0, 2) >> 16 & 255);             // green
  EXPECT_GT((at(0, 1) >> 16 & 255) + (at(0, 1) >> 8 & 255), 400u);  // yellow
  EXPECT_FALSE(
      WritePng(HeatMap{.columns = {"a"}, .rows = {"b"}, .shares = {{0.5, 0.5}}}, path).ok());
  EXPECT_FALSE(WritePng(HeatMap{}, path).ok());
}

// Computed by hand: n = 3, a = 1.8 (1 / (1 + e^-0.15) - 0.5) = 0.0673737...
TEST(SmoothedTest, IsTheMovingAverage) {
  const double a = 1.8 * (1.0 / (1.0 + std::exp(-0.15)) - 0.5);
  EXPECT_NEAR(a, 0.0673737, 1e-7);
  const std::vector<double> smoothed = Smoothed({1.0, 2.0, 4.0});
  EXPECT_EQ(smoothed[0], 1.0);
  EXPECT_DOUBLE_EQ(smoothed[1], a + (1 - a) * 2.0);
  EXPECT_DOUBLE_EQ(smoothed[2], a * smoothed[1] + (1 - a) * 4.0);
  EXPECT_TRUE(Smoothed({}).empty());
  const std::vector<double> gap = Smoothed({std::nan(""), 2.0, 2.0});
  EXPECT_TRUE(std::isnan(gap[0]));
  EXPECT_EQ(gap[2], 2.0);
}

TEST(NiceTicksTest, OneTwoFive) {
  EXPECT_EQ(NiceTicks(0.0, 1.0, 5, false).labels,
            (std::vector<std::string>{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
  EXPECT_EQ(NiceTicks(1, 10, 8, true).labels, (std::vector<std::string>{"2", "4", "6", "8", "10"}));
  EXPECT_EQ(NiceTicks(1, 3, 8, true).labels, (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_EQ(NiceTicks(-0.1, 0.1, 4, false).labels,
            (std::vector<std::string>{"-0.10", "-0.05", "0.00", "0.05", "0.10"}));
  EXPECT_EQ(NiceTicks(120, 980, 5, true).labels,
            (std::vector<std::string>{"200", "400", "600", "800"}));
}

}  // namespace
}  // namespace moonring::trainer
