#ifndef MOONRING_LUA_REPORT_LINE_PROGRAM_H_
#define MOONRING_LUA_REPORT_LINE_PROGRAM_H_

// A program that receives reports of a run, line by line on its stdin (report_to: command). The run
// never waits for the program: lines are queued, and a thread writes them as fast as the program
// reads. If the queue is full, new lines are dropped and counted. After the program has ended, all
// further lines are dropped.
//
// Finish waits, at the end of a run: for at most `patience`, until the program has read the queued
// lines and has ended after its stdin was closed. A program that takes longer is killed. The
// destructor does the same with `grace`: a run that fails does not call Finish.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "lua/rewards/child_process.h"

namespace moonring::lua {

struct LineProgramOptions {
  std::vector<std::string> command;  // the program, searched on the PATH, and its arguments
  size_t most_lines = 10000;         // length of the queue
  size_t most_bytes = size_t{64} << 20;
  std::chrono::milliseconds grace{0};  // see above
};

class LineProgram {
 public:
  // Starts the program. Errors are those of ChildProcess::Start.
  static absl::StatusOr<std::unique_ptr<LineProgram>> Start(LineProgramOptions options);
  ~LineProgram();
  LineProgram(const LineProgram&) = delete;
  LineProgram& operator=(const LineProgram&) = delete;

  void Send(std::string line);
  void Finish(std::chrono::milliseconds patience);

  // Returns messages since the last call: that the program has ended or that lines were dropped
  // (each reported once), and the lines that the program wrote to stderr.
  std::vector<std::string> TakeNotes();

 private:
  explicit LineProgram(LineProgramOptions options) : options_(std::move(options)) {}
  void Work();
  void Stop(std::chrono::milliseconds patience);
  void Note(std::string words);

  const LineProgramOptions options_;
  std::unique_ptr<ChildProcess> child_;  // used only by the thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> waiting_;
  size_t waiting_bytes_ = 0;
  int64_t dropped_ = 0;
  bool ended_ = false, closing_ = false;
  std::chrono::steady_clock::time_point until_;  // deadline of the thread; set when closing
  std::vector<std::string> notes_;
  std::thread thread_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_REPORT_LINE_PROGRAM_H_
