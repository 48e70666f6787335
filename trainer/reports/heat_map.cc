#include "trainer/reports/heat_map.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/files/output_file.h"
#include "base/status/status_macros.h"
#include "trainer/reports/canvas.h"

namespace moonring::trainer {
namespace {

constexpr Colour kNone{0.84, 0.27, 0.26}, kHalf{0.98, 0.86, 0.52}, kAll{0.25, 0.63, 0.38};

Colour Between(Colour a, Colour b, double t) {
  return {a.red + (b.red - a.red) * t, a.green + (b.green - a.green) * t,
          a.blue + (b.blue - a.blue) * t};
}

Colour ColourOf(double share) {
  const double s = std::clamp(share, 0.0, 1.0);
  return s < 0.5 ? Between(kNone, kHalf, s * 2) : Between(kHalf, kAll, s * 2 - 1);
}

absl::Status Check(const HeatMap& map, const std::string& path) {
  bool fits = !map.rows.empty() && !map.columns.empty() && map.shares.size() == map.rows.size();
  for (const std::vector<double>& row : map.shares) fits = fits && row.size() == map.columns.size();
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("trainer.heat_map: ", path, ": expected a share for each of ", map.rows.size(),
                   " rows x ", map.columns.size(), " columns, at least one"));
}

}  // namespace

absl::Status WritePng(const HeatMap& map, const std::string& path) {
  RETURN_IF_ERROR(Check(map, path));
  const double columns = static_cast<double>(map.columns.size()),
               rows = static_cast<double>(map.rows.size());
  Canvas canvas({0, columns}, {0, rows});
  const double width = canvas.X(1) - canvas.X(0), height = canvas.Y(0) - canvas.Y(1);
  for (size_t r = 0; r < map.rows.size(); ++r) {
    const double top = canvas.Y(rows - static_cast<double>(r)), middle = top + height / 2;
    canvas.Text(map.rows[r], Canvas::kLeft - 9, middle, 12, 1, Canvas::kFaint);
    for (size_t c = 0; c < map.columns.size(); ++c) {
      const double share = map.shares[r][c], left = canvas.X(static_cast<double>(c));
      if (!std::isfinite(share)) continue;
      canvas.Box(left + 1, top + 1, width - 2, height - 2, ColourOf(share));
      canvas.Text(absl::StrFormat("%.0f%%", share * 100), left + width / 2, middle, 12, 0.5,
                  Canvas::kInk);
    }
  }
  for (size_t c = 0; c < map.columns.size(); ++c) {
    canvas.Text(map.columns[c], canvas.X(static_cast<double>(c)) + width / 2,
                Canvas::kHeight - Canvas::kBottom + 16, 12, 0.5, Canvas::kFaint);
  }
  canvas.Titles(map.title, map.x_label, map.y_label);
  std::string bytes;
  RETURN_IF_ERROR(canvas.Png(bytes));
  return base::WithContext(base::WriteWhole(path, bytes), "trainer.heat_map");
}

}  // namespace moonring::trainer
