#include "lua/serve/journal.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonring::serve {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

std::string NewPath(const std::string& name) {
  const std::string path = testing::TempDir() + "/" + name + std::to_string(getpid());
  std::filesystem::remove(path);
  return path;
}

struct Contents {
  std::unique_ptr<Journal> journal;
  std::vector<std::string> records;  // "NAME BODY"
};

Contents Read(const std::string& path) {
  Contents contents;
  auto opened = Journal::Open(path);
  EXPECT_TRUE(opened.ok()) << opened.status();
  if (!opened.ok()) return contents;
  contents.journal = *std::move(opened);
  const absl::Status read = contents.journal->Each([&](const Journal::Record& record) {
    contents.records.push_back(record.fields.at("name").get<std::string>() + " " +
                               std::string(record.body));
  });
  EXPECT_TRUE(read.ok()) << read;
  return contents;
}

TEST(Journal, KeepsRecordsInOrder) {
  const std::string path = NewPath("journal_order");
  {
    const auto journal = Read(path).journal;
    ASSERT_TRUE(journal->Append({{"name", "a"}}, std::string("\0\n\xff", 3)).ok());
    ASSERT_TRUE(journal->Append({{"name", "b"}}).ok());
  }
  const Contents again = Read(path);
  EXPECT_THAT(again.records, ElementsAre(std::string("a \0\n\xff", 5), "b "));
  EXPECT_EQ(again.journal->dropped(), 0);
}

TEST(Journal, DropsAnIncompleteEndWhereverItWasCut) {
  const std::string path = NewPath("journal_cut");
  int64_t first = 0;
  {
    const auto journal = Read(path).journal;
    ASSERT_TRUE(journal->Append({{"name", "a"}}, "one").ok());
    first = journal->bytes();
    ASSERT_TRUE(journal->Append({{"name", "b"}}, "two").ok());
  }
  std::string whole;
  {
    std::ifstream file(path, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(file), {});
  }
  for (size_t bytes = static_cast<size_t>(first); bytes < whole.size(); ++bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << whole.substr(0, bytes);
    Contents cut = Read(path);
    ASSERT_THAT(cut.records, ElementsAre("a one")) << bytes;
    EXPECT_EQ(cut.journal->dropped(), static_cast<int64_t>(bytes) - first);
    ASSERT_TRUE(cut.journal->Append({{"name", "c"}}, "three").ok());
    EXPECT_THAT(Read(path).records, ElementsAre("a one", "c three")) << bytes;
  }
  for (size_t bytes = 0; bytes < 19; ++bytes) {  // killed while the file was created
    std::ofstream(path, std::ios::binary | std::ios::trunc) << whole.substr(0, bytes);
    EXPECT_THAT(Read(path).records, IsEmpty()) << bytes;
  }
}

TEST(Journal, RefusesADamageBeforeWholeRecords) {
  const std::string path = NewPath("journal_middle");
  const std::string large(3 << 20, '{');  // every byte looks like the first of a record's object
  int64_t first = 0;
  {
    const auto journal = Read(path).journal;
    first = journal->bytes();
    ASSERT_TRUE(journal->Append({{"name", "a"}}, large).ok());
    ASSERT_TRUE(journal->Append({{"name", "b"}}, "two").ok());
  }
  for (const int64_t place : {first, first + 8, first + 14, first + (2 << 20)}) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(place);
    const int was = file.get();
    file.seekp(place);
    file.put(static_cast<char>(was ^ 1));
    file.close();
    const auto bytes = std::filesystem::file_size(path);
    auto journal = Journal::Open(path);
    ASSERT_TRUE(journal.ok());
    const absl::Status read = (*journal)->Each([](const Journal::Record&) {});
    EXPECT_EQ(read.code(), absl::StatusCode::kDataLoss) << place;
    EXPECT_THAT(read.message(), testing::HasSubstr("the record at byte 19 is damaged"));
    EXPECT_EQ(std::filesystem::file_size(path), bytes);
    file.open(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(place);
    file.put(static_cast<char>(was));
  }
  EXPECT_EQ(Read(path).records.size(), 2);
}

// A client's body may itself be a record; when its append was cut, that is no damage.
TEST(Journal, DropsAnIncompleteRecordThatHoldsAWholeOne) {
  const std::string path = NewPath("journal_inner"), inner_path = NewPath("journal_of_client");
  ASSERT_TRUE(Read(inner_path).journal->Append({{"name", "x"}}, "inner").ok());
  std::ifstream inner(inner_path, std::ios::binary);
  const std::string record((std::istreambuf_iterator<char>(inner)), {});
  ASSERT_TRUE(Read(path).journal->Append({{"name", "a"}}, record + record).ok());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_THAT(Read(path).records, IsEmpty());
}

TEST(Journal, DropsADamagedRecord) {
  const std::string path = NewPath("journal_damaged");
  int64_t first = 0;
  {
    const auto journal = Read(path).journal;
    ASSERT_TRUE(journal->Append({{"name", "a"}}, "one").ok());
    first = journal->bytes();
    ASSERT_TRUE(journal->Append({{"name", "b"}}, "two").ok());
  }
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(first + 14);
  file.put('#');
  file.close();
  EXPECT_THAT(Read(path).records, ElementsAre("a one"));
}

TEST(Journal, RefusesAnotherFile) {
  const std::string path = NewPath("journal_other");
  std::ofstream(path) << "a text that is no journal at all";
  const auto opened = Journal::Open(path);
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Journal, RewritesWhatIsKept) {
  const std::string path = NewPath("journal_rewritten");
  {
    const auto journal = Read(path).journal;
    const auto a = journal->Append({{"name", "a"}}, "one");
    const auto b = journal->Append({{"name", "b"}}, "two");
    const auto c = journal->Append({{"name", "c"}}, "three");
    ASSERT_TRUE(a.ok() && b.ok() && c.ok());
    const auto places = journal->Rewrite({{*c, nullptr, false},
                                          {*a, {{"name", "A"}}, false},
                                          {*b, {{"name", "B"}}, true},
                                          {{}, {{"name", "new"}}, false}});
    ASSERT_TRUE(places.ok()) << places.status();
    EXPECT_EQ(*journal->Body(places->at(0)), "three");
    EXPECT_EQ(*journal->Body(places->at(1)), "one");
    ASSERT_TRUE(journal->Append({{"name", "d"}}, "four").ok());
  }
  EXPECT_THAT(Read(path).records, ElementsAre("c three", "A one", "B ", "new ", "d four"));
}

}  // namespace
}  // namespace moonring::serve
