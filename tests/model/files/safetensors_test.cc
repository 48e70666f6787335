#include "model/files/safetensors.h"

#include <cstring>
#include <string>
#include <vector>

#include "ATen/ATen.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/files/safetensors_writer.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::IsOk;
using ::moonring::testing::ReadAll;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

std::string File(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

absl::Status Open(const std::string& contents) {
  const ScratchFolder folder;
  return SafetensorsFile::Open(folder.Write("x.safetensors", contents)).status();
}

absl::Status OpenHeader(const std::string& header, size_t data_bytes) {
  return Open(File(header, std::string(data_bytes, '\0')));
}

TEST(SafetensorsTest, ReadsEveryDtype) {
  const ScratchFolder folder;
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,)"
      R"(24]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[24,28]},)"
      R"("c":{"dtype":"F16","shape":[1,1,2],"data_offsets":[28,32]},"d":{"dtype":"F64",)"
      R"("shape":[],"data_offsets":[32,40]},)"
      R"("e":{"dtype":"I64","shape":[1],"data_offsets":[40,48]},"f":{"dtype":"BOOL","shape":[2],)"
      R"("data_offsets":[48,50]},)"
      R"("g":{"dtype":"U8","shape":[1],"data_offsets":[50,51]},"z":{"dtype":"F32","shape":[0,4],)"
      R"("data_offsets":[51,51]}})";
  const std::string data = Bytes<float>({1, 2, 3, 4, 5, 6}) + Bytes<uint16_t>({0x3f80, 0xc000}) +
                           Bytes<uint16_t>({0x3c00, 0x3800}) + Bytes<double>({0.1}) +
                           Bytes<int64_t>({-7}) + Bytes<uint8_t>({1, 0}) + Bytes<uint8_t>({200});
  ASSERT_OK_AND_ASSIGN(const auto file,
                       SafetensorsFile::Open(folder.Write("x.safetensors", File(header, data))));
  EXPECT_EQ(file->metadata().at("format"), "pt");
  EXPECT_EQ(file->entries().size(), 8);
  EXPECT_TRUE(at::equal(*file->Read("a"), at::tensor({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}).view({2, 3})));
  EXPECT_TRUE(at::equal(file->Read("b")->to(at::kFloat), at::tensor({1.f, -2.f})));
  EXPECT_TRUE(at::equal(file->Read("c")->to(at::kFloat), at::tensor({1.f, .5f}).view({1, 1, 2})));
  EXPECT_EQ(file->Read("d")->item<double>(), 0.1);
  EXPECT_EQ(file->Read("e")->item<int64_t>(), -7);
  EXPECT_TRUE(at::equal(*file->Read("f"), at::tensor({1, 0}).to(at::kBool)));
  EXPECT_EQ(file->Read("g")->item<uint8_t>(), 200);
  EXPECT_EQ(file->Read("z")->sizes(), (std::vector<int64_t>{0, 4}));
  EXPECT_THAT(file->Read("nobody"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no tensor 'nobody'")));
}

// A tensor keeps the mapping of its file alive. Writing to it changes neither the file nor another
// view.
TEST(SafetensorsTest, ViewsOutliveTheFileAndAreWritable) {
  const ScratchFolder folder;
  // The header has 8 + 56 bytes, so the data are aligned.
  const std::string path = folder.Write(
      "x.safetensors",
      File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  )", Bytes<float>({1, 2})));
  at::Tensor kept;
  {
    ASSERT_OK_AND_ASSIGN(const auto file, SafetensorsFile::Open(path));
    kept = *file->Read("a");
    ASSERT_EQ(reinterpret_cast<uintptr_t>(kept.data_ptr()) % 4, 0);
  }
  kept.mul_(3);
  EXPECT_TRUE(at::equal(kept, at::tensor({3.f, 6.f})));
  ASSERT_OK_AND_ASSIGN(const auto again, SafetensorsFile::Open(path));
  EXPECT_TRUE(at::equal(*again->Read("a"), at::tensor({1.f, 2.f})));
}

TEST(SafetensorsTest, CopiesWhatIsNotAligned) {
  const ScratchFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto file,
                       SafetensorsFile::Open(folder.Write(
                           "x", File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} )",
                                     Bytes<float>({1, 2})))));
  EXPECT_TRUE(at::equal(*file->Read("a"), at::tensor({1.f, 2.f})));
}

TEST(SafetensorsTest, RefusesFalseHeaders) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_THAT(OpenHeader(good, 8), IsOk());
  EXPECT_THAT(Open(""), StatusIs(kInvalid, HasSubstr("0 bytes")));
  EXPECT_THAT(Open("1234567"),
              StatusIs(kInvalid, AllOf(HasSubstr("x.safetensors"), HasSubstr("7 bytes"))));
  EXPECT_THAT(Open(std::string(8, '\xff') + "{}"),
              StatusIs(kInvalid, HasSubstr("header has 18446744073709551615 bytes")));
  EXPECT_THAT(Open(std::string("\x40\0\0\0\0\0\0\0{}", 10)),
              StatusIs(kInvalid, AllOf(HasSubstr("header has 64 bytes, but 2 follow"),
                                       HasSubstr("truncated"))));
  EXPECT_THAT(OpenHeader(R"({"a":)", 8),
              StatusIs(kInvalid, HasSubstr("x.safetensors: header: line 1")));
  EXPECT_THAT(OpenHeader("[]", 0), StatusIs(kInvalid, HasSubstr("expected an object")));
  EXPECT_THAT(OpenHeader(R"({"a":5})", 0),
              StatusIs(kInvalid, HasSubstr("a: expected an object, got 5")));
  EXPECT_THAT(OpenHeader(R"({"__metadata__":{"n":5}})", 0),
              StatusIs(kInvalid, HasSubstr("expected a string")));
  EXPECT_THAT(
      OpenHeader(good, 7),
      StatusIs(kInvalid,
               AllOf(HasSubstr("x.safetensors: a: its data ends at byte 8, but the file has 7"),
                     HasSubstr("truncated"))));
  EXPECT_THAT(OpenHeader(good, 9), StatusIs(kInvalid, HasSubstr("1 bytes after the last tensor")));
}

TEST(SafetensorsTest, RefusesFalseEntries) {
  const auto open = [](const std::string& dtype, const std::string& shape,
                       const std::string& offsets) {
    return OpenHeader(absl::StrCat(R"({"w.weight":{"dtype":")", dtype, R"(","shape":)", shape,
                                   R"(,"data_offsets":)", offsets, "}}"),
                      8);
  };
  EXPECT_THAT(open("F32", "[2]", "[0,8]"), IsOk());
  EXPECT_THAT(open("F4", "[2]", "[0,8]"),
              StatusIs(kInvalid, HasSubstr("x.safetensors: w.weight: unknown dtype 'F4'")));
  EXPECT_THAT(
      open("F32", "[3]", "[0,8]"),
      StatusIs(kInvalid, HasSubstr("w.weight: F32 [3] takes 12 bytes, but data_offsets give 8")));
  EXPECT_THAT(open("F32", "[4294967296,4294967296]", "[0,8]"),
              StatusIs(kInvalid, HasSubstr("w.weight")));
  EXPECT_THAT(open("F32", "[9223372036854775807,3]", "[0,8]"),
              StatusIs(kInvalid, HasSubstr("w.weight")));
  EXPECT_THAT(open("F32", "[-2]", "[0,8]"),
              StatusIs(kInvalid, HasSubstr("w.weight: shape: expected a list of whole numbers")));
  EXPECT_THAT(open("F32", "2", "[0,8]"), StatusIs(kInvalid, HasSubstr("shape")));
  EXPECT_THAT(open("F32", "[2.0]", "[0,8]"), StatusIs(kInvalid, HasSubstr("shape")));
  EXPECT_THAT(open("F32", "[2]", "[8,0]"), StatusIs(kInvalid, HasSubstr("data_offsets")));
  EXPECT_THAT(open("F32", "[2]", "[0]"), StatusIs(kInvalid, HasSubstr("data_offsets")));
  EXPECT_THAT(open("F32", "[2]", "[8,16]"),
              StatusIs(kInvalid, HasSubstr("w.weight: its data ends at byte 16")));
  EXPECT_THAT(open("F32", "[1]", "[4,8]"), StatusIs(kInvalid, HasSubstr("leaving a hole after 0")));
  EXPECT_THAT(OpenHeader(R"({"a":{"dtype":"F32","shape":[1]}})", 4),
              StatusIs(kInvalid, HasSubstr("a: data_offsets: missing")));
  EXPECT_THAT(
      OpenHeader(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32",)"
                 R"("shape":[2],"data_offsets":[4,12]}})",
                 12),
      StatusIs(kInvalid, HasSubstr("b: its data begins at byte 4, inside another tensor")));
  EXPECT_THAT(
      OpenHeader(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],)"
          R"("data_offsets":[1,2]}})",
          2),
      StatusIs(kInvalid, HasSubstr("'a' is there twice")));
}

// A file that is truncated or in which a bit is flipped is either rejected or read, without a
// crash.
TEST(SafetensorsTest, SurvivesDamage) {
  const ScratchFolder folder;
  const std::string good =
      File(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,)"
           R"(16]},"b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}})",
           std::string(22, 'x'));
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_THAT(Open(good.substr(0, length)), Not(IsOk())) << length;
  int opened = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string damaged = good;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const auto file = SafetensorsFile::Open(folder.Write("x.safetensors", damaged));
      if (!file.ok()) continue;
      ++opened;
      for (const auto& [name, entry] : (*file)->entries())
        EXPECT_TRUE((*file)->Read(name)->to(at::kFloat).defined());
    }
  }
  EXPECT_GT(opened, 0);
}

TensorToWrite ToWrite(const std::string& name, const at::Tensor& tensor,
                      at::ScalarType dtype = at::kFloat) {
  return {name, tensor.sizes().vec(), dtype, [tensor] { return tensor; }};
}

TEST(SafetensorsWriterTest, WhatIsWrittenIsRead) {
  const ScratchFolder folder;
  const at::Tensor a = at::randn({5, 3}), b = at::randn({7});
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    ASSERT_OK_AND_ASSIGN(StagedFiles files, StagedFiles::Create(folder / "deep/er"));
    ASSERT_OK(StageShards(files, {ToWrite("a", a, dtype), ToWrite("b.\"quoted\"", b, at::kFloat)},
                          1 << 30));
    EXPECT_FALSE(std::filesystem::exists(folder / "deep/er/model.safetensors") &&
                 dtype == at::kFloat)
        << "nothing appears before Commit";
    ASSERT_OK(files.Commit());
    ASSERT_OK_AND_ASSIGN(const auto file,
                         SafetensorsFile::Open(folder / "deep/er/model.safetensors"));
    EXPECT_TRUE(at::equal(*file->Read("a"), a.to(dtype)));
    EXPECT_TRUE(at::equal(*file->Read("b.\"quoted\""), b));  // each in its own file
    EXPECT_EQ(file->metadata().at("format"), "pt");
  }
}

TEST(SafetensorsWriterTest, ShardsBySize) {
  const ScratchFolder folder;
  std::vector<TensorToWrite> tensors;
  for (int i = 0; i < 5; ++i)
    tensors.push_back(ToWrite(absl::StrCat("t", i), at::full({10}, i)));  // 40 bytes each
  tensors.push_back(ToWrite("large", at::full({100}, 9)));
  ASSERT_OK_AND_ASSIGN(StagedFiles files, StagedFiles::Create(folder.path()));
  ASSERT_OK(StageShards(files, tensors, 100));
  ASSERT_OK(files.Commit());
  ASSERT_OK_AND_ASSIGN(const auto read, SafetensorsFolder::Open(folder.path()));
  EXPECT_EQ(read->weights().size(), 6);
  EXPECT_THAT(read->weights().at("t0").file, HasSubstr("model-00001-of-00004.safetensors"));
  EXPECT_THAT(read->weights().at("t4").file, HasSubstr("model-00003-of-00004.safetensors"));
  EXPECT_THAT(read->weights().at("large").file, HasSubstr("model-00004-of-00004.safetensors"));
  EXPECT_EQ(read->Read("t3")->sum().item<float>(), 30);
  EXPECT_THAT(ReadAll(folder / "model.safetensors.index.json"), HasSubstr("\"total_size\": 600"));
}

TEST(SafetensorsWriterTest, RefusesATensorTwiceAndLeavesNothing) {
  const ScratchFolder folder;
  {
    ASSERT_OK_AND_ASSIGN(StagedFiles files, StagedFiles::Create(folder.path()));
    ASSERT_OK(StageSafetensors(files, "fine.safetensors", {ToWrite("a", at::ones({1}))}));
    EXPECT_THAT(StageSafetensors(files, "x.safetensors",
                                 {ToWrite("a", at::ones({1})), ToWrite("a", at::ones({1}))}),
                StatusIs(kInvalid, "x.safetensors: tensor 'a' is there twice"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SafetensorsFolderTest, NamesWhatIsMissing) {
  const ScratchFolder folder;
  const auto open = [&] { return SafetensorsFolder::Open(folder.path()); };
  EXPECT_THAT(open(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("no model.safetensors and no model.safetensors.index.json")));
  folder.Write("model.safetensors.index.json",
               R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})");
  folder.Write("one.safetensors", File(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                                       Bytes<float>({1})));
  EXPECT_THAT(open(), StatusIs(absl::StatusCode::kNotFound,
                               AllOf(HasSubstr("two.safetensors"), HasSubstr("is missing"))));
  folder.Write("two.safetensors", File(R"({"c":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})",
                                       Bytes<int64_t>({1})));
  EXPECT_THAT(open(),
              StatusIs(kInvalid, HasSubstr("b: the shard two.safetensors has no such tensor")));
  folder.Write("model.safetensors.index.json",
               R"({"weight_map": {"a": "one.safetensors", "c": "two.safetensors"}})");
  ASSERT_OK_AND_ASSIGN(const auto good, open());
  EXPECT_EQ(good->Read("a")->item<float>(), 1);
  EXPECT_EQ(good->weights().at("a").unreadable, "");
  EXPECT_THAT(good->weights().at("c").unreadable, HasSubstr("I64"));
  folder.Write("model.safetensors.index.json", R"({"weight_map": {"a": "../one.safetensors"}})");
  EXPECT_THAT(open(), StatusIs(kInvalid, HasSubstr("not a plain file name")));
  folder.Write("model.safetensors.index.json", R"({"weight_map": {"a": 1}})");
  EXPECT_THAT(open(), StatusIs(kInvalid, HasSubstr("expected a file name")));
  folder.Write("model.safetensors.index.json", R"({"metadata": {}})");
  EXPECT_THAT(open(), StatusIs(kInvalid, HasSubstr("weight_map")));
  folder.Write("model.safetensors.index.json", "{\n\"weight_map\": {");
  EXPECT_THAT(open(), StatusIs(kInvalid, HasSubstr("model.safetensors.index.json: line 2")));
}

}  // namespace
}  // namespace moonring::model
