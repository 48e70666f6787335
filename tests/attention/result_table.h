#ifndef MOONRING_TESTS_ATTENTION_RESULT_TABLE_H_
#define MOONRING_TESTS_ATTENTION_RESULT_TABLE_H_

// A table of benchmark results, printed line by line while the benchmark runs, and written as JSON.
//
//  ResultTable table("dense", filter, "What the columns are.",
//                    {{"tokens", "tokens", -7}, {"ms", "forward_ms", 8}});
//   if (table.Wants({"4096"})) table.Add({Text("4096"), Real(12.345, 2)});

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace moonring::testing {

// A value and its text in the table.
struct Cell {
  nlohmann::ordered_json value;
  std::string text;
};

Cell Text(const std::string& text);
Cell Whole(int64_t value);
Cell Real(double value, int decimals);
Cell Scientific(double value);
Cell Megabytes(int64_t bytes);  // bytes in JSON

class ResultTable {
 public:
  struct Column {
    std::string header;  // as printed
    std::string key;     // in JSON
    int width;           // negative: aligned to the left
  };

  ResultTable(std::string name, std::string filter, std::string title, std::vector<Column> columns);

  // Whether "NAME/line[0]/line[1]..." contains the filter; NAME is the table's name.
  bool Wants(const std::vector<std::string>& line) const;

  // Prints a line with one cell per column. Before the first line it prints the title and the
  // headers.
  void Add(const std::vector<Cell>& cells);

  const std::string& name() const { return name_; }
  const nlohmann::ordered_json& lines() const { return lines_; }  // an array of objects

 private:
  void Print(const std::vector<std::string>& texts) const;

  std::string name_, filter_, title_;
  std::vector<Column> columns_;
  nlohmann::ordered_json lines_ = nlohmann::ordered_json::array();
};

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_ATTENTION_RESULT_TABLE_H_
