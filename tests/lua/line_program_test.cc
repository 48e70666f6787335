#include "lua/report/line_program.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::lua {
namespace {

using moonring::testing::IsOk;
using moonring::testing::ReadAll;
using moonring::testing::ScratchFolder;
using moonring::testing::StatusIs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::chrono::seconds kPatience(30);

std::unique_ptr<LineProgram> Started(LineProgramOptions options) {
  auto program = LineProgram::Start(std::move(options));
  EXPECT_THAT(program, IsOk());
  return *std::move(program);
}

LineProgramOptions Shell(const std::string& line) { return {.command = {"/bin/sh", "-c", line}}; }

// Returns all notes of the program until its end.
std::vector<std::string> NotesToItsEnd(LineProgram& program) {
  std::vector<std::string> notes;
  while (true) {
    for (std::string& note : program.TakeNotes()) notes.push_back(std::move(note));
    for (const std::string& note : notes)
      if (note.find("no further step") != std::string::npos) return notes;
    program.Send("still there?");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST(LineProgram, ReadsEachLine) {
  const ScratchFolder folder;
  const auto program =
      Started(Shell("echo unasked; echo told >&2; cat > '" + (folder / "lines") + "'"));
  std::string all;
  for (int i = 0; i < 5000; ++i) {
    const std::string line = std::to_string(i) + std::string(100, 'x');
    program->Send(line);
    all += line + "\n";
  }
  program->Finish(kPatience);
  EXPECT_EQ(ReadAll(folder / "lines"), all);
  EXPECT_THAT(program->TakeNotes(), ElementsAre("told"));
  program->Send("too late");
  program->Finish(kPatience);
}

TEST(LineProgram, WaitsForItsEnd) {
  const ScratchFolder folder;
  const auto program = Started(Shell("cat; sleep 0.5; echo done > '" + (folder / "done") + "'"));
  program->Finish(kPatience);
  EXPECT_EQ(ReadAll(folder / "done"), "done\n");
}

// A run that fails only destroys the object.
TEST(LineProgram, HasItsGrace) {
  const ScratchFolder folder;
  LineProgramOptions options = Shell("sleep 0.5; cat > '" + (folder / "lines") + "'");
  options.grace = std::chrono::seconds(30);
  auto program = Started(std::move(options));
  program->Send("the last line");
  program.reset();
  EXPECT_EQ(ReadAll(folder / "lines"), "the last line\n");
}

TEST(LineProgram, OneThatDies) {
  const auto program = Started(Shell("read line; echo no network >&2; exit 3"));
  const std::vector<std::string> notes = NotesToItsEnd(*program);
  EXPECT_THAT(notes, Contains(HasSubstr("no network")));
  EXPECT_THAT(notes, Contains(HasSubstr("it ended with exit code 3")));
  for (int i = 0; i < 1000; ++i) program->Send("nobody hears this");
  program->Finish(kPatience);
  EXPECT_THAT(program->TakeNotes(), IsEmpty());
}

TEST(LineProgram, OneThatDoesNotRead) {
  LineProgramOptions options = Shell("exec sleep 1000");
  options.most_lines = 10;
  const auto program = Started(std::move(options));
  // A single line is larger than a pipe's buffer.
  for (int i = 0; i < 500; ++i) program->Send(std::string(200000, 'x'));
  EXPECT_THAT(program->TakeNotes(),
              ElementsAre("it reads too slowly: lines that do not fit its queue are dropped"));
  program->Finish(std::chrono::milliseconds(200));
  EXPECT_THAT(program->TakeNotes(),
              ElementsAre(HasSubstr("it has not read "), "it did not end in time, and was killed",
                          HasSubstr(" lines were dropped")));
}

TEST(LineProgram, AMissingProgram) {
  EXPECT_THAT(LineProgram::Start({.command = {"/no/such/program"}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/program")));
}

}  // namespace
}  // namespace moonring::lua
