// report.html in Chromium, narrow and wide, light and dark: there are no console errors and no
// requests, curves are drawn, and nothing is wider than the window. Also mouse interaction, and the
// live page. With --test_output=all the test prints the paths of its screenshots, for people to
// view.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/scripts/workplace.h"
#include "tests/testing/browser.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kEvil[] =
    R"(</script><img src=x onerror="window.harmed=1"><svg onload="window.harmed=1">)";

class ReportBrowserTest : public Workplace {
 protected:
  ReportBrowserTest() : browser_(Path("profile")) {
    WriteModel("model");
    // Makes a page with real layouts, memory and data, and then with a longer log, like that of a
    // run of some hours.
    WriteConfig(
        "max_steps: 3\nval_size: 2\neval_strategy: steps\neval_steps: 1\nmemory_report: true\n"
        "sequence_parallel_size: 2\nsample_prompt: who?\nsave_strategy: no\nlearning_rate: 1e-3");
    EXPECT_THAT(Run({"-n", "4", "train", "config.yaml"}), Succeeds());
    fs::create_directories(Path("out/completions"));
    std::string log, ranks, completions;
    for (int step = 10; step <= 8000; step += 10) {
      const double wave = 0.2 * ((step / 10 * 7919) % 13) / 13.0, sunk = 3.0 / (1 + step / 900.0);
      json line = {{"current_steps", step},
                   {"total_steps", 8000},
                   {"loss", sunk + wave},
                   {"lr", 1e-4 * (1 - step / 8001.0)},
                   {"epoch", step / 4000.0},
                   {"grad_norm", 1 + wave},
                   {"tokens", 4096 * step},
                   {"tokens_per_second", 9000 - 900 * wave},
                   {"peak_memory_bytes", 5e9 + 1e6 * step},
                   {"rewards/chosen", 1 - sunk},
                   {"rewards/rejected", -sunk},
                   {"rewards/accuracies", 1 - 0.2 * sunk},
                   {"elapsed_time", "2:00:00"},
                   {"remaining_time", "0:10:00"}};
      double share = 0.9;
      for (const char* part : {"forward", "backward", "communication", "waiting", "optimizer"})
        line[std::string("time/") + part] = share = 0.6 * share + 0.05 * wave;
      for (const char* part : {"weights", "gradients", "optimizer", "activations"})
        line["memory/" + std::string(part) + "_bytes"] = share = 1e9 + 0.3 * share;
      if (step == 4000) line["grad_norm"] = nullptr;
      log += line.dump() + "\n";
      if (step % 500 == 0) {
        log += json{{"current_steps", step},
                    {"total_steps", 8000},
                    {"eval_loss", sunk + 0.1},
                    {"eval_runtime", 2.0},
                    {"tokens", 1}}
                   .dump() +
               "\n";
      }
      json times;
      for (int rank = 0; rank < 4; ++rank)
        times.push_back(
            {{"busy", rank == 2 ? 1.4 : 1 + wave / 4}, {"waiting", rank == 2 ? 0 : 0.4}});
      ranks += json{{"step", step}, {"ranks", times}}.dump() + "\n";
    }
    for (int i = 0; i < 6; ++i) {
      completions +=
          json{{"prompt", "What is 2 + 2?"},  {"completion", kEvil}, {"step", 1}, {"reward", 0.5},
               {"rewards", {{"exact", 0.5}}}, {"tokens", 12}}
              .dump() +
          "\n";
    }
    Write("out/trainer_log.jsonl", log);
    Write("out/ranks.jsonl", ranks);
    Write("out/completions/00000.jsonl", completions);
    EXPECT_THAT(Run({"report", "out"}), Succeeds());
  }

  void Picture(const std::string& name) {
    const char* folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
    const std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/" + name + ".png";
    std::ofstream(path, std::ios::binary) << browser_.Screenshot();
    std::printf("picture  %s\n", path.c_str());
  }

  // Returns for each chart the number of pixels of its canvas that have the color of the last line.
  json DrawnCharts() {
    return browser_.Evaluate(R"((() => [...charts].map((chart) => {
      const canvas = chart.figure.querySelector("canvas");
      const pen = canvas.getContext("2d");
      const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
      const wanted = color(chart.lines.at(-1).color).match(/\w\w/g).map((hex) => parseInt(hex, 16));
      let count = 0;
      for (let i = 0; i < pixels.length; i += 4) {
        const near = wanted.every((value, c) => Math.abs(pixels[i + c] - value) < 40);
        if (pixels[i + 3] > 128 && near) ++count;
      }
      return {title: chart.figure.querySelector("figcaption").textContent, count};
    }))())");
  }

  void ExpectGood(int width, bool dark) {
    EXPECT_THAT(browser_.complaints(), IsEmpty());
    EXPECT_LE(browser_.Evaluate("document.documentElement.scrollWidth"), width);
    EXPECT_EQ(browser_.Evaluate("window.harmed"), json());
    EXPECT_EQ(browser_.Evaluate("document.querySelectorAll('img, svg').length"), 0);
    const std::string paper = browser_.Evaluate("getComputedStyle(document.body).backgroundColor");
    EXPECT_EQ(paper, dark ? "rgb(20, 23, 26)" : "rgb(255, 255, 255)");
    const json charts = DrawnCharts();
    EXPECT_GE(charts.size(), 9) << charts;
    for (const json& chart : charts) EXPECT_GT(chart.at("count"), 100) << chart;
  }

  // Returns a point of the plot in the chart with this title, in window coordinates.
  json InChart(const std::string& title, double x) {
    return browser_.Evaluate(R"((() => {
      const chart = [...charts].find((each) => each.figure.querySelector("figcaption")
          .firstChild.textContent === ")" +
                             title + R"(");
      chart.figure.scrollIntoView({block: "center"});
      const box = chart.plot.over.getBoundingClientRect();
      return {x: box.left + )" +
                             std::to_string(x) +
                             R"( * box.width, y: box.top + box.height / 2};
    })())");
  }

  Browser browser_;
};

TEST_F(ReportBrowserTest, IsReadable) {
  for (const bool dark : {false, true}) {
    for (const int width : {400, 1280}) {
      SCOPED_TRACE(std::to_string(width) + (dark ? " dark" : " light"));
      browser_.Open("file://" + Path("out/report.html"), width, dark);
      Picture(std::to_string(width) + (dark ? "-dark" : "-light"));
      ExpectGood(width, dark);
      EXPECT_THAT(browser_.requests(), ElementsAre(StartsWith("file://")));  // itself
    }
  }
}

TEST_F(ReportBrowserTest, AnswersTheMouse) {
  browser_.Open("file://" + Path("out/report.html"), 1280, false);
  const auto legend = [&] {
    return browser_.Evaluate("[...charts][0].figure.querySelectorAll('.u-value')[1].textContent");
  };
  const json middle = InChart("Loss", 0.5), right = InChart("Loss", 0.7);
  browser_.Mouse("mouseMoved", middle["x"], middle["y"]);
  EXPECT_TRUE(browser_.Await(
      "[...charts][0].figure.querySelectorAll('.u-value')[0].textContent.startsWith('4,0')"));
  EXPECT_GT(std::stod(legend().get<std::string>()), 0.3);
  // Dragging the mouse over one chart zooms all charts to these steps.
  browser_.Mouse("mousePressed", middle["x"], middle["y"]);
  browser_.Mouse("mouseMoved", right["x"], right["y"]);
  browser_.Mouse("mouseReleased", right["x"], right["y"]);
  EXPECT_TRUE(browser_.Await(
      "[...charts].every(({plot}) => plot.scales.x.min > 3500 && plot.scales.x.max < 6500)"))
      << browser_.Evaluate("[...charts].map(({plot}) => [plot.scales.x.min, plot.scales.x.max])");
  browser_.Evaluate("document.querySelector('.controls button').click()");
  EXPECT_TRUE(browser_.Await("[...charts].every(({plot}) => plot.scales.x.max > 2)"));
  EXPECT_TRUE(browser_.Await("[...charts][0].plot.scales.x.min < 100"));
  // The buttons for a logarithmic scale and for smoothing.
  browser_.Evaluate("[...charts][0].logButton.click()");
  EXPECT_EQ(browser_.Evaluate("[...charts][0].plot.scales.y.distr"), 3);
  browser_.Evaluate(
      "(() => { const slider = document.querySelector('input[type=range]'); slider.value = 0.9; "
      "slider.dispatchEvent(new Event('input')); })()");
  EXPECT_TRUE(browser_.Await("[...charts][0].plot.series.length > 3"));
  Picture("smoothed");
  EXPECT_THAT(browser_.complaints(), IsEmpty());
}

TEST_F(ReportBrowserTest, ComparesRuns) {
  fs::copy(Path("out"), Path("other"), fs::copy_options::recursive);
  std::string log = ReadText(Path("other/trainer_log.jsonl"));
  for (size_t at = 0; (at = log.find("\"loss\":", at)) != std::string::npos; at += 8)
    log.insert(at + 7, "1");
  Write("other/trainer_log.jsonl", log);
  std::string settings = ReadText(Path("other/training_args.yaml"));
  settings.replace(settings.find("learning_rate: "), 15, "learning_rate: 3");
  Write("other/training_args.yaml", settings);
  ASSERT_THAT(Run({"report", "out", "other"}), Succeeds());
  for (const int width : {400, 1280}) {
    browser_.Open("file://" + Path("report.html"), width, false);
    Picture("compared-" + std::to_string(width));
    ExpectGood(width, false);
    EXPECT_EQ(browser_.Evaluate("document.querySelectorAll('#configuration tbody tr').length"), 1);
  }
}

TEST_F(ReportBrowserTest, LiveFollowsTheRun) {
  Command watch(Options({"watch", "out"}));
  ASSERT_TRUE(watch.WaitForOutput("\n"));
  const std::string said = watch.Output();
  browser_.Open(said.substr(7, said.size() - 8), 1280, false);
  ASSERT_TRUE(browser_.Await("charts.size > 8"));
  const int points = browser_.Evaluate("[...charts][0].plot.data[0].length");
  std::ofstream(Path("out/trainer_log.jsonl"), std::ios::app)
      << R"({"current_steps":8010,"total_steps":9000,"loss":0.1,"lr":0.1,"tokens":1})"
      << "\n";
  EXPECT_TRUE(
      browser_.Await("[...charts][0].plot.data[0].length === " + std::to_string(points + 1)));
  Picture("live");
  ExpectGood(1280, false);
  watch.Signal(SIGTERM);
  EXPECT_THAT(watch.Wait(), Succeeds());
  EXPECT_TRUE(
      browser_.Await("document.getElementById('state').textContent.includes('does not answer')"));
}

}  // namespace
}  // namespace moonring::testing
