#ifndef MOONRING_TRAINER_HEAT_MAP_H_
#define MOONRING_TRAINER_HEAT_MAP_H_

// A table of shares, 0 to 1, as a PNG: a box a cell, red for 0, yellow between, green for 1, the
// share written in it.

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace moonring::trainer {

struct HeatMap {
  std::string title, x_label, y_label;
  std::vector<std::string> columns, rows;   // what each is called, left to right and top to bottom
  std::vector<std::vector<double>> shares;  // [row][column]; what is not finite is left white
};

// InvalidArgument where there is no cell, or shares do not match rows and columns; else of the
// file.
absl::Status WritePng(const HeatMap& map, const std::string& path);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_HEAT_MAP_H_
