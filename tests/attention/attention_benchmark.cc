// Attention benchmarks: the kernel compared with matmul, one rank compared with LibTorch's
// operator, and every strategy compared with the prediction of its plan.
//
//   bazel run //tests/attention:attention_benchmark -- [--quick] [--filter=SUBSTRING] [--json=FILE]
//
// There are three tables; each line is printed when it has been measured, and a heading explains
// the columns. --filter selects lines by name: the table's name and the first columns, for example
// strategies/4096/bf16/4/ring. --quick omits the longest sequences and measures fewer times. --json
// writes all values with their names to a file. Times are the best of a few measurements, and are
// only accurate on an idle machine.

#include <cstdio>
#include <fstream>
#include <string>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "tests/attention/kernel_benchmark.h"
#include "tests/attention/result_table.h"
#include "tests/attention/strategy_benchmark.h"

namespace {

struct Flags {
  bool quick = false;
  std::string filter, json;
};

bool Parse(int argc, char** argv, Flags& flags) {
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (argument == "--quick") {
      flags.quick = true;
    } else if (absl::ConsumePrefix(&argument, "--filter=")) {
      flags.filter = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--json=")) {
      flags.json = std::string(argument);
    } else {
      absl::FPrintF(stderr,
                    "unknown argument %s; known are --quick, --filter=SUBSTRING, --json=FILE\n",
                    argument);
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  if (!Parse(argc, argv, flags)) return 2;
  at::manual_seed(1);
  absl::PrintF("%d threads, kernels for %s\n", at::get_num_threads(), at::get_cpu_capability());
  nlohmann::ordered_json results;
  results["threads"] = at::get_num_threads();
  results["cpu_capability"] = at::get_cpu_capability();
  const auto keep = [&](const moonring::testing::ResultTable& table) {
    results[table.name()] = table.lines();
  };
  keep(moonring::attention::MeasureRoofline(flags.filter, flags.quick));
  keep(moonring::attention::MeasureDense(flags.filter, flags.quick));
  keep(moonring::attention::MeasureStrategies(flags.filter, flags.quick));
  if (!flags.json.empty()) {
    std::ofstream file(flags.json);
    file << results.dump(1) << "\n";
    if (!file.flush()) {
      absl::FPrintF(stderr, "--json: could not write %s\n", flags.json);
      return 1;
    }
  }
  return ::testing::UnitTest::GetInstance()->Failed() ? 1 : 0;  // the rank has printed its error
}
