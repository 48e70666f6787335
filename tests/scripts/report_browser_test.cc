// report.html in Chromium. What it says and draws is what the run's files contain: the status, the
// numbers of the overview, the points of the curves. Narrow and wide, light and dark, there are no
// console errors and no requests, curves are drawn, and nothing is wider than the window. Also
// interaction, and the live page. With --test_output=all the test prints the paths of its
// screenshots, for people to view.

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"
#include "tests/testing/browser.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
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
      const front = chart.lines.at(chart.how.fill ? -1 : 0);  // the line on top of the others
      const wanted = color(front.color).match(/\w\w/g).map((hex) => parseInt(hex, 16));
      let count = 0;
      for (let i = 0; i < pixels.length; i += 4) {
        const near = wanted.every((value, c) => Math.abs(pixels[i + c] - value) < 40);
        if (pixels[i + 3] > 128 && near) ++count;
      }
      return {title: chart.title, count};
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
      const chart = [...charts].find((each) => each.title === ")" +
                             title + R"(");
      chart.figure.scrollIntoView({block: "center"});
      const box = chart.plot.over.getBoundingClientRect();
      return {x: box.left + )" +
                             std::to_string(x) +
                             R"( * box.width, y: box.top + box.height / 2};
    })())");
  }

  // Returns the texts of the overview's cards by their names.
  std::map<std::string, std::string> Cards() {
    return browser_.Evaluate(
        "Object.fromEntries([...document.querySelectorAll('#overview .card')].map((card) => "
        "[...card.children].map((part) => part.textContent)))");
  }
  std::string TextOf(const std::string& selector) {
    return browser_.Evaluate("document.querySelector('" + selector + "').innerText");
  }
  // Returns a line of a chart, as drawnCharts() describes it; null if it is not drawn.
  json Line(const std::string& title, const std::string& row, const std::string& column) {
    return browser_.Evaluate("(drawnCharts().find(({title}) => title === '" + title +
                             "') || {lines: []}).lines.find((line) => line.row === '" + row +
                             "' && line.column === '" + column + "') || null");
  }
  void ReportAndOpen(const std::vector<std::string>& runs, const std::string& out) {
    std::vector<std::string> words = {"report"};
    words.insert(words.end(), runs.begin(), runs.end());
    words.push_back("out=" + out);
    ASSERT_THAT(Run(words), Succeeds());
    browser_.Open("file://" + Path(out), 1280, false);
    EXPECT_THAT(browser_.complaints(), IsEmpty());
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

TEST_F(ReportBrowserTest, AnswersMouseAndKeyboard) {
  browser_.Open("file://" + Path("out/report.html"), 1280, false);
  const auto legend = [&](const std::string& cell) {
    return "[...charts][0].figure.querySelector('.legend " + cell + "').textContent";
  };
  const json middle = InChart("Loss", 0.5), right = InChart("Loss", 0.7);
  browser_.Mouse("mouseMoved", middle["x"], middle["y"]);
  EXPECT_TRUE(browser_.Await(legend("th") + ".startsWith('step 4,0')"));
  EXPECT_GT(std::stod(browser_.Evaluate(legend("td")).get<std::string>()), 0.3);
  // Dragging the mouse over one chart zooms all charts to these steps.
  browser_.Mouse("mousePressed", middle["x"], middle["y"]);
  browser_.Mouse("mouseMoved", right["x"], right["y"]);
  browser_.Mouse("mouseReleased", right["x"], right["y"]);
  EXPECT_TRUE(browser_.Await(
      "[...charts].every(({plot}) => plot.scales.x.min > 3500 && plot.scales.x.max < 6500)"))
      << browser_.Evaluate("[...charts].map(({plot}) => [plot.scales.x.min, plot.scales.x.max])");
  browser_.Evaluate("document.querySelector('#curves .controls button').click()");
  EXPECT_TRUE(browser_.Await("[...charts].every(({plot}) => plot.scales.x.max > 2)"));
  EXPECT_TRUE(browser_.Await("[...charts][0].plot.scales.x.min < 100"));
  // The arrow keys move the cursor of the chart that has the focus.
  browser_.Mouse("mouseMoved", 2, 2);
  browser_.Evaluate(
      "[...charts][0].place.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}))");
  EXPECT_TRUE(browser_.Await(legend("th") + " === 'step 10'")) << browser_.Evaluate(legend("th"));
  // A name in the legend switches its lines off.
  browser_.Evaluate("[...charts][0].figure.querySelector('.legend button').click()");
  EXPECT_EQ(browser_.Evaluate("[...charts][0].plot.series.slice(1).some((each) => each.show)"),
            false);
  browser_.Evaluate("[...charts][0].figure.querySelector('.legend button').click()");
  // The buttons for a logarithmic scale and for smoothing: a schedule is not smoothed, nor are a
  // few evaluations.
  browser_.Evaluate("[...charts][0].logButton.click()");
  EXPECT_EQ(browser_.Evaluate("[...charts][0].plot.scales.y.distr"), 3);
  browser_.Evaluate(
      "(() => { const slider = document.querySelector('input[type=range]'); slider.value = 0.9; "
      "slider.dispatchEvent(new Event('input')); })()");
  EXPECT_TRUE(browser_.Await("[...charts][0].plot.series.length > 3"));
  EXPECT_EQ(browser_.Evaluate("drawnCharts().find(({title}) => title === 'Loss').lines.map("
                              "({column, faint}) => column + (faint ? ' as it is' : ''))"),
            json({"train as it is", "train", "eval"}));
  EXPECT_EQ(browser_.Evaluate("drawnCharts().find(({title}) => title === 'Learning rate')"
                              ".lines.length"),
            1);
  Picture("smoothed");
  EXPECT_THAT(browser_.complaints(), IsEmpty());
}

constexpr char kCommand[] = "moonring train config.yaml";

// A log of `steps` lines with some evaluations, whose numbers are simple functions of the step. The
// evaluation after the training is the last line, and not the best.
std::string LogOf(int steps, double slope = 1) {
  std::string log;
  const auto add = [&](json line, int step) {
    line.update({{"current_steps", step}, {"total_steps", steps}, {"tokens", 100 * step}});
    log += line.dump() + "\n";
  };
  for (int step = 1; step <= steps; ++step) {
    add({{"loss", 5 - slope * step / steps},
         {"lr", 1e-3},
         {"grad_norm", 1.0},
         {"tokens_per_second", step == steps ? 9999.0 : 50.0},  // the last one is an exception
         {"peak_memory_bytes", 1000000 * step},
         {"elapsed_time",
          step < 30 ? "0:00:" + std::string(step < 5 ? "0" : "") + std::to_string(2 * step)
                    : "0:01:00"}},
        step);
    if (step % 5 == 0) add({{"eval_loss", std::abs(step - 10) + 1.5}}, step);
  }
  return log;
}

json StateOf(const std::string& state, const std::string& reason) {
  return {{"state", state},
          {"reason", reason},
          {"began", "2026-11-28T21:00:00Z"},
          {"command", kCommand},
          {"directory", "/home/me/job"}};
}

// Each status is one word on the page, with its reason and with how to resume.
TEST_F(ReportBrowserTest, SaysHowARunStands) {
  fs::create_directories(Path("run/checkpoint-5"));
  Write("run/trainer_log.jsonl", LogOf(10));
  for (const std::string file : {"manifest.json", "training_state.json"})
    Write("run/checkpoint-5/" + file, "{}");
  const std::string resumable =
      "resumable from checkpoint-5: " + std::string(kCommand) + " resume_from_checkpoint=true";
  const auto status = [&](const json& state) {
    Write("run/run_state.json", state.dump());
    ReportAndOpen({"run"}, "page.html");
    return TextOf("#status");
  };
  json finished = StateOf("finished", "all 10 steps are made");
  finished["next"] = {"moonring chat run"};
  EXPECT_THAT(status(finished),
              AllOf(StartsWith("status finished all 10 steps are made"),
                    HasSubstr("next: moonring chat run"), Not(HasSubstr("resumable"))));
  EXPECT_THAT(
      status(StateOf("stopped", "SIGTERM ended it after step 5")),
      AllOf(StartsWith("status stopped SIGTERM ended it after step 5"), HasSubstr(resumable)));
  EXPECT_THAT(status(StateOf("failed", "the loss is nan at step 6")),
              AllOf(StartsWith("status failed the loss is nan at step 6"), HasSubstr(resumable)));
  const json running = StateOf("running", "it trains");
  EXPECT_THAT(status(running),
              AllOf(StartsWith("status killed the process was killed after step 10"),
                    HasSubstr(resumable)));
  const int lock = open(Path("run/run.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_EQ(flock(lock, LOCK_EX | LOCK_NB), 0);
  EXPECT_THAT(status(running),
              AllOf(StartsWith("status running running when this page was written, at 2"),
                    HasSubstr(" UTC"), Not(HasSubstr("resumable"))));
  close(lock);
}

// The numbers of the overview, the tables and the curves are those of the files.
TEST_F(ReportBrowserTest, ShowsTheNumbersOfTheFiles) {
  fs::create_directories(Path("run"));
  // The evaluation after the training, at the last step: it is the last one, and not the best.
  Write("run/trainer_log.jsonl",
        LogOf(20) +
            json{{"current_steps", 20}, {"total_steps", 20}, {"elapsed_time", "0:01:00"}}.dump() +
            "\n" + json{{"current_steps", 20}, {"total_steps", 20}, {"eval_loss", 7.75}}.dump() +
            "\n");
  json state = StateOf("finished", "all 20 steps are made");
  state.update({{"step", 20},
                {"total_steps", 20},
                {"tokens", 2000},
                {"tokens_per_second", 48.25},
                {"train_loss", 4.125},
                {"train_runtime", 3725.0},
                {"peak_memory_bytes", 3 << 20},
                {"peak_device_bytes", 0},
                {"ended", "2026-11-28T22:30:05Z"},
                {"model", {{"path", "model"}, {"parameters", 2000}, {"trainable", 500}}},
                {"machine", {{"host", "node7"}, {"ranks", 1}, {"device", "cpu"}}}});
  Write("run/run_state.json", state.dump());
  Write("run/all_results.json", json{{"eval_loss", 7.75}, {"train_loss", 4.125}}.dump());
  ReportAndOpen({"run"}, "page.html");
  EXPECT_EQ(Cards(), (std::map<std::string, std::string>{{"steps", "20 of 20"},
                                                         {"train_loss (mean)", "4.125"},
                                                         {"last loss", "4"},
                                                         {"last eval_loss", "7.75"},
                                                         {"best eval_loss", "1.5 (step 10)"},
                                                         {"tokens/s (mean, steps only)", "48.25"},
                                                         {"tokens", "2,000"},
                                                         {"training time", "1:02:05"},
                                                         {"peak memory", "3 MiB"}}));
  EXPECT_THAT(TextOf("#overview table"),
              AllOf(HasSubstr("2,000, 500 trained (25 %)"), HasSubstr(kCommand),
                    HasSubstr("2026-11-28 21:00:00 UTC"), HasSubstr("1:30:05")));
  EXPECT_EQ(browser_.Evaluate("[...document.querySelectorAll('#evaluations tbody tr')].map("
                              "(row) => row.innerText)"),
            json({"20\t7.75", "15\t6.5", "10\t1.5", "5\t6.5"}));
  EXPECT_EQ(TextOf("#results tbody"), "eval_loss\t7.75\ntrain_loss\t4.125");
  const json evaluated = Line("Loss", "loss", "eval"), trained = Line("Loss", "loss", "train");
  EXPECT_EQ(evaluated.at("x"), json({5, 10, 15, 20}));
  EXPECT_EQ(evaluated.at("y"), json({6.5, 1.5, 6.5, 7.75}));
  EXPECT_EQ(evaluated.at("color"), trained.at("color"));
  EXPECT_EQ(json({evaluated.at("dashed"), trained.at("dashed")}), json({true, false}));
  EXPECT_EQ(trained.at("y")[9], 4.5);

  const auto take_axis = [&](const std::string& name) {
    browser_.Evaluate(
        "(() => { const list = document.querySelector('#curves select'); "
        "list.value = '" +
        name + "'; list.dispatchEvent(new Event('change')); })()");
  };
  take_axis("tokens");
  EXPECT_EQ(Line("Loss", "loss", "eval").at("x"), json({500, 1000, 1500, 2000}));
  EXPECT_EQ(TextOf(".legend th"), "last");
  take_axis("time");
  const json times = Line("Loss", "loss", "train").at("x");
  for (int i = 0; i < 19; ++i) EXPECT_NEAR(times[i].get<double>(), 2 * (i + 1), 1.01) << times;

  // An older run has no run_state.json: its mean is that of the log, not the rate of the last line.
  fs::remove(Path("run/run_state.json"));
  ReportAndOpen({"run"}, "page.html");
  std::map<std::string, std::string> cards = Cards();
  EXPECT_NEAR(std::stod(cards["tokens/s (mean of the log)"]), 2000 / (19 * 2 + 100 / 9999.0), 0.01);
  EXPECT_EQ(cards["peak memory"], "19.07 MiB");
  EXPECT_EQ(cards.count("tokens/s (mean, steps only)"), 0);
}

// Each number of the other sections is the one in its file.
TEST_F(ReportBrowserTest, SectionsShowTheirFiles) {
  browser_.Open("file://" + Path("out/report.html"), 1280, false);
  const auto shown = [&](const std::string& function, double value) {
    return browser_.Evaluate(function + "(" + json(value).dump() + ")").get<std::string>();
  };
  const json data = ReadJson(Path("out/data_report.json"));
  const std::string cards = TextOf("#data");
  for (const char* name : {"rows", "examples", "tokens"})
    EXPECT_THAT(cards,
                HasSubstr(std::string(name) + "\n" + shown("integer", data.at(name)) + "\n"));
  EXPECT_THAT(cards, HasSubstr("trained tokens\n" + shown("integer", data.at("learnt"))));
  EXPECT_THAT(cards, HasSubstr("Evaluation data: val_size\nrows\n2\n"));

  const json memory = ReadJson(Path("out/memory_report.json")).at("worst");
  double sum = 0;
  for (const auto& [name, bytes] : memory.at("parts").items()) sum += bytes.get<double>();
  EXPECT_THAT(TextOf("#memory-at-the-peak p"),
              HasSubstr(shown("bytes", sum) + " by category; the kernel counts " +
                        shown("bytes", memory.at("totals").at("kernel"))));

  // Rank 2 works 1.4 s of each step and waits 0.4 s less than the others.
  std::vector<double> busy(4);
  const std::vector<json> lines = ReadJsonLines(Path("out/ranks.jsonl"));
  for (const json& line : lines) {
    for (int rank = 0; rank < 4; ++rank)
      busy[rank] += line.at("ranks")[rank].at("busy").get<double>();
  }
  const double mean = (busy[0] + busy[1] + busy[2] + busy[3]) / 4;
  const std::string count = std::to_string(lines.size());
  EXPECT_THAT(TextOf("#slowest-ranks p"),
              AllOf(HasSubstr("Rank 2 has the most work of its own: " +
                              shown("percent", busy[2] / mean - 1) + " more than the mean"),
                    HasSubstr("the slowest at " + count + " of " + count + " logging steps")));

  const json results = ReadJson(Path("out/all_results.json"));
  const json rows = browser_.Evaluate(
      "Object.fromEntries([...document.querySelectorAll('#results tbody tr')].map((row) => "
      "[...row.cells].map((cell) => cell.textContent)))");
  EXPECT_EQ(rows.size(), results.size());
  for (const auto& [name, value] : results.items())
    EXPECT_EQ(rows.at(name), shown("shortNumber", value)) << name;
  EXPECT_THAT(TextOf("#layouts"), HasSubstr("divided zigzag"));
}

// With one rank there are no slowest ranks and no layouts.
TEST_F(ReportBrowserTest, ShowsOfOneRankNothingAboutOthers) {
  WriteConfig("max_steps: 2\nlogging_steps: 1\noutput_dir: alone");
  ASSERT_THAT(Run({"train", "config.yaml"}), Succeeds());
  browser_.Open("file://" + Path("alone/report.html"), 1280, false);
  EXPECT_THAT(TextOf("#status"), StartsWith("status finished"));
  EXPECT_EQ(browser_.Evaluate("[...document.querySelectorAll('nav a:not([hidden])')].map((link) => "
                              "link.textContent).filter((name) => /rank|layout/i.test(name))"),
            json::array());
  EXPECT_THAT(TextOf("#overview"), Not(HasSubstr("sp ")));
}

// Training by rewards shows these first; completions are grouped by prompt, the best reward first.
TEST_F(ReportBrowserTest, RewardsComeFirst) {
  fs::create_directories(Path("run/completions"));
  std::string log, completions;
  for (int step = 1; step <= 3; ++step) {
    log += json{{"current_steps", step},
                {"total_steps", 3},
                {"tokens", step},
                {"loss", 0.1},
                {"reward", 0.5},
                {"completions/mean_length", 9.0},
                {"kl", 0.01},
                {"entropy", 1.0},
                {"rewards/exact/mean", 0.5},
                {"lr", 1e-3},
                {"reward_std", 0.25}}
               .dump() +
           "\n";
  }
  for (const char* prompt : {"first?", "second?"}) {
    for (const double reward : {0.25, 1.0, 0.5})
      completions +=
          json{{"prompt", prompt}, {"completion", "answer"}, {"reward", reward}}.dump() + "\n";
  }
  Write("run/trainer_log.jsonl", log);
  Write("run/completions/00000.jsonl", completions);
  ReportAndOpen({"run"}, "page.html");
  EXPECT_EQ(browser_.Evaluate("drawnCharts().slice(0, 6).map(({title}) => title)"),
            json({"Reward", "Reward functions", "KL divergence", "Completion length", "Entropy",
                  "Loss"}));
  EXPECT_EQ(browser_.Evaluate("[...document.querySelectorAll('#samples .prompt, #samples strong')]"
                              ".map((part) => part.textContent)"),
            json({"first?", "reward 1", "reward 0.5", "reward 0.25", "second?", "reward 1",
                  "reward 0.5", "reward 0.25"}));
}

// A run has the same colour in all charts, on all pages, and when other runs are hidden. Hidden
// runs stay hidden when data come.
TEST_F(ReportBrowserTest, RunsAreChosen) {
  for (const std::string run : {"alpha", "beta", "gamma"}) {
    fs::create_directories(Path(run));
    Write(run + "/trainer_log.jsonl", LogOf(20));
  }
  json state = StateOf("finished", "done at last");
  state["tokens_per_second"] = 77.5;
  Write("beta/run_state.json", state.dump());
  const std::string colors =
      "(() => { const all = {}; for (const {lines} of drawnCharts()) for (const {row, color} of "
      "lines) (all[row] = all[row] || new Set()).add(color); return Object.fromEntries("
      "Object.entries(all).map(([run, colors]) => [run, [...colors]])); })()";
  ReportAndOpen({"gamma", "beta"}, "two.html");
  const json of_two = browser_.Evaluate(colors);
  ReportAndOpen({"alpha", "beta", "gamma"}, "three.html");
  const json of_three = browser_.Evaluate(colors);
  ASSERT_EQ(of_three.size(), 3);
  for (const auto& [run, list] : of_three.items()) EXPECT_EQ(list.size(), 1) << run << list;
  EXPECT_EQ(of_two.at("beta"), of_three.at("beta"));
  EXPECT_EQ(of_two.at("gamma"), of_three.at("gamma"));
  EXPECT_NE(of_three.at("alpha"), of_three.at("beta"));
  EXPECT_THAT(TextOf("#overview table"), AllOf(HasSubstr("77.5"), HasSubstr("finished")));
  EXPECT_THAT(TextOf("#evaluations table"), HasSubstr("beta\t6.5\t1.5\t10\t11.5\t20"));

  browser_.Evaluate("document.querySelectorAll('label.run input')[0].click()");
  for (const char* update : {"", "show({...newest, made: '2026-11-29T00:00:00Z'})"}) {
    if (*update != 0) browser_.Evaluate(update);
    const json hidden = browser_.Evaluate(colors);
    EXPECT_EQ(hidden.size(), 2) << hidden;
    EXPECT_EQ(hidden.value("gamma", json()), of_three.at("gamma"));
    EXPECT_EQ(browser_.Evaluate("document.querySelector('label.run input').checked"), false);
  }
  browser_.Evaluate("document.querySelectorAll('label.run input')[2].click()");
  EXPECT_EQ(browser_.Evaluate(colors).value("beta", json()), of_three.at("beta"));
  EXPECT_EQ(browser_.Evaluate("document.getElementById('title').textContent"), "1 of 3 runs");
  browser_.Evaluate(
      "(() => { const search = document.querySelector('input[type=search]'); search.value = 'ET'; "
      "search.dispatchEvent(new Event('input')); })()");
  EXPECT_EQ(browser_.Evaluate("[...document.querySelectorAll('label.run .name')].filter((name) => "
                              "name.offsetHeight > 0).map((name) => name.textContent)"),
            json({"beta"}));

  // A folder's list: a run whose data are not there is asked for when it is chosen.
  EXPECT_EQ(browser_.Evaluate("chosenRuns()"), json());
  browser_.Evaluate(
      "show({...newest, runs: newest.runs.slice(1, 2), list: [...newest.runs, {name: 'delta & co', "
      "state: 'running', step: 3, total_steps: 9}]})");
  EXPECT_EQ(browser_.Evaluate("chosenRuns()"), json({"beta"}));
  browser_.Evaluate("document.querySelectorAll('label.run input')[3].click()");
  EXPECT_EQ(browser_.Evaluate("query()"), "?show=beta&show=delta%20%26%20co");
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
  fs::remove(Path("out/run_state.json"));  // as an older run, whose log is the only source
  Command watch(Options({"watch", "out"}));
  ASSERT_TRUE(watch.WaitForOutput("\n"));
  const std::string said = watch.Output();
  browser_.Open(said.substr(7, said.size() - 8), 1280, false);
  ASSERT_TRUE(browser_.Await("charts.size > 8"));
  EXPECT_THAT(TextOf("#status"), StartsWith("status ended the log ends after step 8000"));
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

// A conversation of two messages, an answer that is stopped, and a new chat.
TEST_F(ReportBrowserTest, ChatsWithTheModel) {
  Command watch(Options({"watch", "out"}));
  ASSERT_TRUE(watch.WaitForOutput("\n"));
  const std::string said = watch.Output();
  for (const int width : {400, 1280}) {
    browser_.Open(said.substr(7, said.size() - 8), width, width == 400);
    ASSERT_TRUE(browser_.Await("charts.size > 8"));
    browser_.Evaluate("[...document.querySelectorAll('.tabs button')][1].click()");
    EXPECT_TRUE(browser_.Evaluate("document.getElementById('sections').hidden"));
    ASSERT_TRUE(
        browser_.Await("document.querySelector('[aria-label=checkpoint]').value === 'final'"));
    const auto button = [](const std::string& name) {
      return "[...document.querySelectorAll('#chat button')].find((each) => each.textContent === "
             "'" +
             name + "')";
    };
    const auto send = [&](const std::string& text, int tokens) {
      browser_.Evaluate("document.getElementById('chat-max_new_tokens').value = " +
                        std::to_string(tokens));
      browser_.Evaluate("document.querySelector('[aria-label=message]').value = '" + text + "'");
      browser_.Evaluate(button("Send") + ".click()");
    };
    const std::string answers = "[...document.querySelectorAll('#chat .assistant pre')]";
    send("moon 1", 5);
    EXPECT_TRUE(
        browser_.Await("document.querySelector('#chat').textContent.includes('5 tokens, ')"));
    send("and <img src=x>", 1500);
    EXPECT_TRUE(
        browser_.Await(answers + ".length === 2 && " + answers + "[1].textContent.length > 9"));
    Picture("chat-" + std::to_string(width));
    browser_.Evaluate(button("Stop") + ".click()");
    EXPECT_TRUE(browser_.Await(button("Stop") + ".disabled"));
    EXPECT_EQ(browser_.Evaluate("document.querySelectorAll('#chat img').length"), 0);
    EXPECT_LE(browser_.Evaluate("document.documentElement.scrollWidth"), width);
    browser_.Evaluate(button("New chat") + ".click()");
    EXPECT_EQ(browser_.Evaluate(answers + ".length"), 0);
    EXPECT_THAT(browser_.complaints(), IsEmpty());
  }
  watch.Signal(SIGTERM);
  EXPECT_THAT(watch.Wait(), Succeeds());
}

}  // namespace
}  // namespace moonring::testing
