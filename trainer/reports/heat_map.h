#ifndef MOONRING_TRAINER_REPORTS_HEAT_MAP_H_
#define MOONRING_TRAINER_REPORTS_HEAT_MAP_H_

// A table of values from 0 to 1 as a PNG: each cell is coloured from red (0) over yellow to green
// (1), with its value as text.

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace moonring::trainer {

struct HeatMap {
  std::string title, x_label, y_label;
  std::vector<std::string> columns, rows;   // labels, left to right and top to bottom
  std::vector<std::vector<double>> shares;  // [row][column]; non-finite cells stay white
};

// InvalidArgument if there are no cells or the sizes of shares do not match rows and columns;
// otherwise errors of writing the file.
absl::Status WritePng(const HeatMap& map, const std::string& path);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_REPORTS_HEAT_MAP_H_
