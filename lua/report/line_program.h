#ifndef MOONRING_LUA_REPORT_LINE_PROGRAM_H_
#define MOONRING_LUA_REPORT_LINE_PROGRAM_H_

// A program that is told of a run, a line at a time on its stdin: report_to: command. The run never
// waits for it: lines stand in a queue, which a thread writes as the program reads. Where the queue
// is full a line is dropped and counted; where the program has ended all further ones are.
//
// Only Finish waits, at the end of a run: at most `patience` for the program to read what stands in
// the queue and, once its stdin is closed, to end; then it is killed.

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
  std::vector<std::string> command;  // the program, looked for on the path, and its arguments
  size_t most_lines = 10000;         // that wait
  size_t most_bytes = size_t{64} << 20;
  std::chrono::milliseconds patience{30000};
};

class LineProgram {
 public:
  // Fails as ChildProcess::Start.
  static absl::StatusOr<std::unique_ptr<LineProgram>> Start(LineProgramOptions options);
  ~LineProgram();  // without patience
  LineProgram(const LineProgram&) = delete;
  LineProgram& operator=(const LineProgram&) = delete;

  void Send(std::string line);
  void Finish();

  // What is to be said of it since the last time: that it has ended, that lines are dropped (once
  // each), and what it wrote itself.
  std::vector<std::string> TakeNotes();

 private:
  explicit LineProgram(LineProgramOptions options) : options_(std::move(options)) {}
  void Work();
  void Stop(std::chrono::milliseconds patience);
  void Note(std::string words);

  const LineProgramOptions options_;
  std::unique_ptr<ChildProcess> child_;  // the thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> waiting_;
  size_t waiting_bytes_ = 0;
  int64_t dropped_ = 0;
  bool ended_ = false, closing_ = false;
  std::chrono::steady_clock::time_point until_;  // once closing
  std::vector<std::string> notes_;
  std::thread thread_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_REPORT_LINE_PROGRAM_H_
