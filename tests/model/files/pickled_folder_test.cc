#include "model/files/pickled_folder.h"

#include <filesystem>
#include <string>
#include <vector>

#include "ATen/ATen.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/checkpoint/checkpoint.h"
#include "model/files/safetensors_writer.h"
#include "nlohmann/json.hpp"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::IsOk;
using ::moonring::testing::ReadAll;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::StatusIs;
using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr auto kInvalidFolder = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;

// The path of a file written by make_pickle_fixtures.py.
std::string Fixture(const std::string& name) { return "tests/model/files/pickles/" + name; }
const json& Golden() {
  static const json* const golden = new json(json::parse(ReadAll(Fixture("golden.json"))));
  return *golden;
}

absl::Status OpenBytes(const std::string& bytes) {
  const ScratchFolder folder;
  return PickledFile::Open(folder.Write("x.bin", bytes)).status();
}

// Replaces `found`, which must occur once, by `wanted`, which must have the same size.
std::string Replaced(std::string bytes, const std::string& found, const std::string& wanted) {
  EXPECT_EQ(found.size(), wanted.size());
  const size_t at = bytes.find(found);
  EXPECT_NE(at, std::string::npos) << found;
  return bytes.replace(at, found.size(), wanted);
}

TEST(PickledFileTest, ReadsWhatTorchSaved) {
  for (const char* name : {"plain.bin", "plain_protocol5.bin"}) {
    ASSERT_OK_AND_ASSIGN(const auto file, PickledFile::Open(Fixture(name)));
    const json& golden = Golden()[name];
    ASSERT_EQ(file->entries().size(), golden.size());
    for (const auto& [tensor_name, wanted] : golden.items()) {
      ASSERT_OK_AND_ASSIGN(const at::Tensor tensor, file->Read(tensor_name));
      SCOPED_TRACE(absl::StrCat(name, ": ", tensor_name));
      EXPECT_EQ(tensor.sizes(), wanted["shape"].get<std::vector<int64_t>>());
      EXPECT_TRUE(tensor.is_contiguous());
      EXPECT_TRUE(at::equal(tensor.to(at::kDouble).flatten(),
                            at::tensor(wanted["values"].get<std::vector<double>>(), at::kDouble)));
    }
    EXPECT_EQ(file->entries().at("bfloat16").dtype, at::kBFloat16);
    EXPECT_EQ(file->entries().at("float8_e4m3fn").dtype, at::kFloat8_e4m3fn);
    EXPECT_THAT(file->Read("nobody"), StatusIs(kNotFound, HasSubstr("no tensor 'nobody'")));
  }
}

// Contiguous tensors are views of the file, not copies. Writing to a tensor does not change another
// one of the same storage.
TEST(PickledFileTest, TensorsAreViewsOfTheFile) {
  ASSERT_OK_AND_ASSIGN(const auto file, PickledFile::Open(Fixture("plain.bin")));
  const auto& entries = file->entries();
  EXPECT_EQ(entries.at("tied").begin, entries.at("base").begin);
  EXPECT_EQ(entries.at("rows").begin, entries.at("base").begin + 6 * 4);
  EXPECT_TRUE(entries.at("rows").contiguous);
  EXPECT_FALSE(entries.at("transposed").contiguous);
  EXPECT_FALSE(entries.at("columns").contiguous);
  at::Tensor base = *file->Read("base");
  const at::Tensor kept = base.clone();
  base.zero_();
  EXPECT_TRUE(at::equal(*file->Read("tied"), kept));
  EXPECT_TRUE(at::equal(*file->Read("transposed"), kept.t()));
}

TEST(PickledFileTest, RefusesWhatIsNotATensor) {
  const auto opened = [](const std::string& name) {
    return PickledFile::Open(Fixture(name)).status();
  };
  EXPECT_THAT(opened("evil_system.bin"),
              StatusIs(kInvalidFolder,
                       EndsWith("/evil_system.bin: data.pkl: 'posix.system' is not a tensor: "
                                "refused (only tensors are read from a pickle)")));
  EXPECT_THAT(opened("evil_eval.bin"),
              StatusIs(kInvalidFolder,
                       HasSubstr("evil_eval.bin: data.pkl: '__builtin__.eval' is not a tensor")));
  EXPECT_THAT(opened("evil_protocol4.bin"),
              StatusIs(kInvalidFolder, HasSubstr("'builtins.exec' is not a tensor")));
  EXPECT_THAT(opened("evil_class.bin"),
              StatusIs(kInvalidFolder, HasSubstr("'collections.Counter' is not a tensor")));
  EXPECT_THAT(
      opened("sparse.bin"),
      StatusIs(kInvalidFolder, HasSubstr("'torch._utils._rebuild_sparse_tensor' is not a tensor")));
  EXPECT_THAT(
      opened("list.bin"),
      StatusIs(kInvalidFolder, HasSubstr("list.bin: data.pkl: it contains a list: expected a "
                                         "dictionary from names to tensors")));
  EXPECT_THAT(
      opened("number.bin"),
      StatusIs(kInvalidFolder, HasSubstr("number.bin: data.pkl: 'step' is a whole number (found "
                                         "'weight', 'step'): expected tensors alone")));
  EXPECT_THAT(
      opened("checkpoint.bin"),
      StatusIs(kInvalidFolder, HasSubstr("the tensors are not at the top but in 'state_dict' "
                                         "(found 'epoch', 'state_dict', 'optimizer')")));
  EXPECT_THAT(
      opened("expanded.bin"),
      StatusIs(
          kInvalidFolder,
          HasSubstr("expanded.bin: weight: [1000, 3] has more elements than its storage (3)")));
}

TEST(PickledFileTest, RefusesOtherFiles) {
  EXPECT_THAT(PickledFile::Open(Fixture("nobody.bin")),
              StatusIs(kNotFound, HasSubstr("nobody.bin")));
  EXPECT_THAT(
      PickledFile::Open(Fixture("before_1_6.bin")),
      StatusIs(kInvalidFolder,
               EndsWith("before_1_6.bin: saved by torch before 1.6: open and save it again")));
  EXPECT_THAT(PickledFile::Open(Fixture("other.zip")),
              StatusIs(kInvalidFolder, HasSubstr("other.zip: not a whole archive of torch.save")));
  EXPECT_THAT(
      PickledFile::Open(Fixture("compressed.bin")),
      StatusIs(kInvalidFolder, HasSubstr("compressed.bin: the record byteorder is compressed")));
  EXPECT_THAT(OpenBytes(""),
              StatusIs(kInvalidFolder, HasSubstr("x.bin: not a file of torch.save")));
  EXPECT_THAT(OpenBytes("version https://git-lfs.github.com/spec/v1\n"),
              StatusIs(kInvalidFolder, HasSubstr("it begins with 'version https://git-lfs.'")));
  EXPECT_THAT(OpenBytes(std::string("PK\x03\x04", 4)),
              StatusIs(kInvalidFolder, HasSubstr("truncated?")));
}

TEST(PickledFileTest, RefusesDamagedArchives) {
  const std::string good = ReadAll(Fixture("plain.bin"));
  ASSERT_THAT(OpenBytes(good), IsOk());
  EXPECT_THAT(
      OpenBytes(Replaced(good, "little", "bigbig")),
      StatusIs(kInvalidFolder, HasSubstr("x.bin: its byte order is 'bigbig', expected 'little'")));
  EXPECT_THAT(
      OpenBytes(good.substr(0, good.size() / 2)),
      StatusIs(kInvalidFolder, HasSubstr("x.bin: not a whole archive of torch.save (truncated?)")));
  const std::string renamed = absl::StrReplaceAll(good, {{"plain/data/0", "plain/data/x"}});
  EXPECT_THAT(OpenBytes(renamed),
              StatusIs(kInvalidFolder, HasSubstr("x.bin: the record data/0 is missing")));
  // The size of a record in the archive's directory must not be allocated unchecked.
  std::string vast = good;
  const size_t version = vast.rfind("plain/version");
  ASSERT_NE(version, std::string::npos);
  vast.replace(version - 46 + 24, 4, std::string("\xff\xff\xff\x7f", 4));
  EXPECT_THAT(OpenBytes(vast), IsOk());  // that record is not read
  const size_t pickle = vast.rfind("plain/data.pkl");
  vast.replace(pickle - 46 + 24, 4, std::string("\xff\xff\xff\x7f", 4));
  EXPECT_THAT(
      OpenBytes(vast),
      StatusIs(kInvalidFolder, HasSubstr("x.bin: the record data.pkl has 2147483647 bytes from")));
  const std::string nameless = absl::StrReplaceAll(good, {{"plain/data.pkl", "plain/data.pkx"}});
  EXPECT_THAT(OpenBytes(nameless),
              StatusIs(kInvalidFolder, HasSubstr("x.bin: the record data.pkl is missing")));
}

// A tensor that exceeds its storage is rejected. single.bin contains `weight`, of shape (2, 2) with
// strides (2, 1), from element 0 of a storage of 4.
TEST(PickledFileTest, RefusesTensorsBeyondTheirStorage) {
  const std::string good = ReadAll(Fixture("single.bin")),
                    place("QK\0K\x02K\x02\x86q\bK\x02K\x01\x86", 15), size = "K\x04tq\aQ";
  ASSERT_THAT(OpenBytes(good), IsOk());
  const auto with = [&](uint8_t byte, uint8_t value) {
    std::string changed = place;
    changed[byte] = static_cast<char>(value);
    return OpenBytes(Replaced(good, place, changed));
  };
  EXPECT_THAT(
      with(2, 1),
      StatusIs(kInvalidFolder, HasSubstr("x.bin: weight: [2, 2] with strides [2, 1] from element "
                                         "1 on goes beyond its storage, which has 4")));
  EXPECT_THAT(
      with(4, 3u),
      StatusIs(kInvalidFolder,
               HasSubstr("weight: [3, 2] with strides [2, 1] from element 0 on goes beyond")));
  EXPECT_THAT(
      with(11, 3u),
      StatusIs(kInvalidFolder,
               HasSubstr("weight: [2, 2] with strides [3, 1] from element 0 on goes beyond")));
  EXPECT_THAT(with(13, 2), StatusIs(kInvalidFolder, HasSubstr("goes beyond its storage")));
  EXPECT_THAT(with(13, 0), IsOk()) << "twice the same element, but not more than there are";
  EXPECT_THAT(with(4, 0), IsOk());
  EXPECT_THAT(
      OpenBytes(Replaced(good, size, "K\x05tq\aQ")),
      StatusIs(kInvalidFolder, HasSubstr("x.bin: weight: its storage has 5 elements of 4 bytes, "
                                         "but the record data/0 has 16 bytes")));
}

// Opens the file and reads everything in it. The tests only require that this function returns.
bool Survives(const std::string& path) {
  const auto file = PickledFile::Open(path);
  if (!file.ok()) {
    EXPECT_THAT(std::string(file.status().message()),
                AllOf(StartsWith(path), Not(HasSubstr("\n"))));
    return false;
  }
  for (const auto& [name, entry] : (*file)->entries())
    EXPECT_TRUE((*file)->Read(name)->to(at::kFloat).defined());
  return true;
}

TEST(PickledFileTest, SurvivesTruncation) {
  const ScratchFolder folder;
  const std::string good = ReadAll(Fixture("single.bin"));
  for (size_t length = 0; length < good.size(); length += length < 900 ? 7 : 1)
    EXPECT_FALSE(Survives(folder.Write("x.bin", good.substr(0, length)))) << length;
}

// Damaged files do not crash the reader: in archive, pickle and storages, one byte at a time is
// damaged, in one of several ways in turn.
TEST(PickledFileTest, SurvivesDamage) {
  const ScratchFolder folder;
  constexpr uint8_t kFlips[] = {0x01, 0x80, 0xff, 0x20, 0x04};
  int opened = 0, trial = 0;
  for (const auto& [name, step] :
       {std::pair("single.bin", 2u), std::pair("plain.bin", 5u),
        std::pair("plain_protocol5.bin", 7u), std::pair("evil_system.bin", 7u)}) {
    const std::string good = ReadAll(Fixture(name));
    for (size_t at = 0; at < good.size(); at += step) {
      std::string damaged = good;
      damaged[at] = static_cast<char>(damaged[at] ^ kFlips[trial++ % 5]);
      opened += Survives(folder.Write("x.bin", damaged));
    }
  }
  EXPECT_GT(opened, 500);
}

// Damaged pickles do not crash the reader: every bit is flipped, and every byte is set to the
// opcodes that push, pop or call.
TEST(PickledFileTest, SurvivesDamagedPickles) {
  int read = 0, refused = 0;
  for (const char* name : {"plain.bin", "plain_protocol5.bin"}) {
    ASSERT_OK_AND_ASSIGN(const auto file, MappedFile::Open(Fixture(name)));
    ASSERT_OK_AND_ASSIGN(const auto archive, TorchArchive::Open(file));
    const std::string good(*archive->Bytes("data.pkl"));
    for (size_t at = 0; at < good.size(); ++at) {
      std::string damaged = good;
      const auto trial = [&](char byte) {
        damaged[at] = byte;
        ++(ReadTensorPickle(damaged, "x").ok() ? read : refused);
      };
      for (int bit = 0; bit < 8; ++bit) trial(static_cast<char>(good[at] ^ (1 << bit)));
      for (const char opcode : {'(', 't', ')', 'R', 'b', 'u', 's', '0', '1', 'Q', 'h', '}', '.'})
        trial(opcode);
      EXPECT_FALSE(ReadTensorPickle(good.substr(0, at), "x").ok());
    }
  }
  EXPECT_GT(read, 1000);
  EXPECT_GT(refused, 1000);
}

// Reads a folder that Transformers wrote, in two shards.
TEST(PickledFolderTest, ReadsShards) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(Fixture("sharded")));
  const json& golden = Golden()["sharded"];
  EXPECT_EQ(checkpoint->names().size(), golden.size());
  for (const auto& [name, wanted] : golden.items()) {
    ASSERT_OK_AND_ASSIGN(const at::Tensor weight, checkpoint->Load(name, at::kDouble));
    EXPECT_EQ(weight.sizes(), wanted["shape"].get<std::vector<int64_t>>()) << name;
    EXPECT_TRUE(at::equal(weight.flatten(),
                          at::tensor(wanted["values"].get<std::vector<double>>(), at::kDouble)))
        << name;
  }
  EXPECT_TRUE(checkpoint->extra_names().empty());
}

TEST(PickledFolderTest, SafetensorsComeFirst) {
  const ScratchFolder folder;
  for (const auto& entry : std::filesystem::directory_iterator(Fixture("sharded")))
    folder.Write(entry.path().filename(), ReadAll(entry.path()));
  std::vector<TensorToWrite> zeros;
  for (const auto& [name, wanted] : Golden()["sharded"].items()) {
    const at::Tensor zero = at::zeros(wanted["shape"].get<std::vector<int64_t>>());
    zeros.push_back({name, zero.sizes().vec(), at::kFloat, [zero] { return zero; }});
  }
  ASSERT_OK_AND_ASSIGN(StagedFiles files, StagedFiles::Create(folder.path()));
  ASSERT_OK(StageSafetensors(files, "model.safetensors", zeros));
  ASSERT_OK(files.Commit());
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(folder.path()));
  EXPECT_EQ(checkpoint->Load("lm_head.weight", at::kFloat)->abs().sum().item<float>(), 0);
}

TEST(PickledFolderTest, NamesWhatIsMissing) {
  const ScratchFolder folder;
  const auto open = [&] { return PickledFolder::Open(folder.path()); };
  EXPECT_THAT(
      open(),
      StatusIs(kNotFound, HasSubstr("no pytorch_model.bin and no pytorch_model.bin.index.json")));
  folder.Write("one.bin", ReadAll(Fixture("single.bin")));
  folder.Write("pytorch_model.bin.index.json",
               R"({"weight_map": {"weight": "one.bin", "x": "two.bin"}})");
  EXPECT_THAT(
      open(),
      StatusIs(
          kNotFound,
          HasSubstr("the shard two.bin, which pytorch_model.bin.index.json names, is missing")));
  folder.Write("pytorch_model.bin.index.json",
               R"({"weight_map": {"weight": "one.bin", "x": "one.bin"}})");
  EXPECT_THAT(open(),
              StatusIs(kInvalidFolder, HasSubstr("pytorch_model.bin.index.json: weight_map: x: "
                                                 "the shard one.bin has no such tensor")));
  folder.Write("pytorch_model.bin.index.json", R"({"weight_map": {"weight": "../one.bin"}})");
  EXPECT_THAT(open(), StatusIs(kInvalidFolder, HasSubstr("not a plain file name")));
  folder.Write("pytorch_model.bin.index.json", R"({"weight_map": {"weight": "one.bin"}})");
  ASSERT_OK_AND_ASSIGN(const auto good, open());
  EXPECT_EQ(good->weights().at("weight").shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(good->Read("weight")->sizes(), (std::vector<int64_t>{2, 2}));
  folder.Write("pytorch_model.bin", ReadAll(Fixture("plain.bin")));
  ASSERT_OK_AND_ASSIGN(const auto single, open());
  EXPECT_EQ(single->weights().at("bfloat16").unreadable, "");
  EXPECT_THAT(single->weights().at("int64").unreadable,
              HasSubstr("dtype Long is not supported as a weight"));
}

}  // namespace
}  // namespace moonring::model
