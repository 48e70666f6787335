#include "model/files/pickle_graph.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/files/tensor_pickle.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::IsOk;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;
using Kind = PickleValue::Kind;

constexpr auto kInvalidPickle = absl::StatusCode::kInvalidArgument;
constexpr absl::string_view kAllowed[] = {"collections.OrderedDict", "torch.Size"};

// Opcodes as a string, which may contain zero bytes.
template <size_t N>
std::string Raw(const char (&bytes)[N]) {
  return std::string(bytes, N - 1);
}

// Returns the graph of `pickle` as text. Text values are omitted, because they refer to the
// pickle's bytes.
std::string Root(const std::string& pickle) {
  const auto graph = PickleGraph::Read(pickle, kAllowed, "x");
  if (!graph.ok()) return graph.status().ToString();
  const PickleValue& root = (*graph)[graph->root()];
  if (root.kind == Kind::kInt || root.kind == Kind::kBool) return std::to_string(root.number);
  if (root.kind == Kind::kText) return std::string(root.text);
  return graph->Described(root);
}

absl::Status Status(const std::string& pickle) {
  return PickleGraph::Read(pickle, kAllowed, "x").status();
}

TEST(PickleGraphTest, ReadsNumbersAndTexts) {
  EXPECT_EQ(Root("K\xff."), "255");
  EXPECT_EQ(Root("M\x01\x02."), "513");
  EXPECT_EQ(Root("J\xfe\xff\xff\xff."), "-2");
  EXPECT_EQ(Root(Raw("\x8a\x00.")), "0");
  EXPECT_EQ(Root("\x8a\x01\x80."), "-128");
  EXPECT_EQ(Root(Raw("\x8a\x05\x00\x00\x00\x00\x01.")), "4294967296");
  EXPECT_EQ(Root("\x88."), "1");
  EXPECT_EQ(Root("\x89."), "0");
  EXPECT_EQ(Root("N."), "None");
  EXPECT_EQ(Root("G12345678."), "a number");
  EXPECT_EQ(Root(Raw("X\x02\x00\x00\x00hi.")), "hi");
  EXPECT_EQ(Root("\x8c\x02hi."), "hi");
  EXPECT_EQ(Root(Raw("\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi.")), "hi");
  EXPECT_EQ(Root(Raw("\x80\x05\x95\x00\x00\x00\x00\x00\x00\x00\x00K\x07.")), "7");
}

TEST(PickleGraphTest, KeepsCallsUncalled) {
  const std::string good = Raw("ctorch\nSize\nq\x01K\x02K\x03\x86\x85Rq\x02h\x02h\x01\x87.");
  ASSERT_OK_AND_ASSIGN(const PickleGraph graph, PickleGraph::Read(good, kAllowed, "x"));
  const PickleValue& root = graph[graph.root()];
  ASSERT_EQ(root.items.size(), 3);
  EXPECT_EQ(root.items[0], root.items[1]) << "one value, remembered";
  const PickleValue& call = graph[root.items[0]];
  EXPECT_TRUE(graph.IsCallOf(call, "torch.Size"));
  const PickleValue& sizes = graph[graph[call.arguments].items[0]];
  EXPECT_EQ(sizes.kind, Kind::kTuple);
  EXPECT_EQ(graph[sizes.items[1]].number, 3);
  EXPECT_EQ(graph[root.items[2]].kind, Kind::kGlobal);
}

TEST(PickleGraphTest, FillsDictionariesAndLists) {
  const std::string pickle =
      Raw("\x8c\x0b"
          "collections\x8c\x0bOrderedDict\x93)R(\x8c\x01"
          "aK\x01\x8c\x01"
          "bK\x02u}\x8c\x01mNsb.");
  ASSERT_OK_AND_ASSIGN(const PickleGraph graph, PickleGraph::Read(pickle, kAllowed, "x"));
  const PickleValue& root = graph[graph.root()];
  EXPECT_TRUE(graph.IsCallOf(root, "collections.OrderedDict"));
  EXPECT_TRUE(root.has_state);
  ASSERT_EQ(root.items.size(), 4);
  EXPECT_EQ(graph[root.items[2]].text, "b");
  EXPECT_EQ(graph[root.items[3]].number, 2);
  EXPECT_EQ(Root("](K\x01K\x02"
                 "eK\x03"
                 "a."),
            "a list");
}

TEST(PickleGraphTest, RefusesNamesThatAreNotAllowed) {
  EXPECT_THAT(
      Status("cos\nsystem\n."),
      StatusIs(kInvalidPickle,
               "x: 'os.system' is not a tensor: refused (only tensors are read from a pickle)"));
  EXPECT_THAT(Status("ctorch\nsize\n."),
              StatusIs(kInvalidPickle, HasSubstr("'torch.size' is not a tensor")));
  EXPECT_THAT(Status("ctorch.Size\n\n."),
              StatusIs(kInvalidPickle, HasSubstr("'torch.Size.' is not a tensor")));
  EXPECT_THAT(Status("\x8c\x02os\x8c\x06system\x93."),
              StatusIs(kInvalidPickle, HasSubstr("'os.system' is not a tensor")));
  EXPECT_THAT(
      Status("K\x01\x8c\x06system\x93."),
      StatusIs(kInvalidPickle, HasSubstr("a function is named by a whole number and a text")));
}

TEST(PickleGraphTest, RefusesOpcodesThatMakeObjects) {
  for (const char* opcode :
       {"ios\nsystem\n", "o", "\x81", "\x92", "\x82\x01", "\x97", "P1\n", "\x8f", "S'x'\n", "2"}) {
    EXPECT_THAT(Status(std::string("(") + opcode + "."),
                StatusIs(kInvalidPickle, HasSubstr("is not one that data need: refused")))
        << opcode;
  }
}

TEST(PickleGraphTest, RefusesWhatDoesNotFitTogether) {
  EXPECT_THAT(Status(""),
              StatusIs(kInvalidPickle,
                       "x: not a valid pickle: at byte 0 of 0: it has no end (truncated?)"));
  EXPECT_THAT(Status("."), StatusIs(kInvalidPickle, HasSubstr("a value is expected")));
  EXPECT_THAT(Status("N(."), StatusIs(kInvalidPickle, HasSubstr("a value is expected")))
      << "nothing is taken from below a mark";
  EXPECT_THAT(Status("N(\x85."), StatusIs(kInvalidPickle, HasSubstr("a value is expected")));
  EXPECT_THAT(Status("t."), StatusIs(kInvalidPickle, HasSubstr("a mark is expected")));
  EXPECT_THAT(Status("h\x07."),
              StatusIs(kInvalidPickle, HasSubstr("the value 7 is expected before it is there")));
  EXPECT_THAT(Status("q\x01."), StatusIs(kInvalidPickle, HasSubstr("a value is expected")));
  EXPECT_THAT(Status("K"),
              StatusIs(kInvalidPickle, HasSubstr("1 bytes are expected, 0 are left (truncated?)")));
  EXPECT_THAT(Status("X\xff\xff\xff\xffhi."),
              StatusIs(kInvalidPickle, HasSubstr("4294967295 bytes are expected, 3 are left")));
  EXPECT_THAT(Status("\x8d\xff\xff\xff\xff\xff\xff\xff\xffhi."),
              StatusIs(kInvalidPickle, HasSubstr("18446744073709551615 bytes are expected")));
  EXPECT_THAT(Status("ctorch"), StatusIs(kInvalidPickle, HasSubstr("a name has no end")));
  EXPECT_THAT(
      Status("\x8a\x09"
             "123456789."),
      StatusIs(kInvalidPickle, HasSubstr("a whole number has 9 bytes, expected 8 at most")));
  EXPECT_THAT(Status("K\x01)R."),
              StatusIs(kInvalidPickle, HasSubstr("a whole number is called with a tuple")));
  EXPECT_THAT(Status("ctorch\nSize\nNR."),
              StatusIs(kInvalidPickle, HasSubstr("torch.Size is called with None")));
  EXPECT_THAT(Status("}NNNu."), StatusIs(kInvalidPickle, HasSubstr("a mark is expected")));
  EXPECT_THAT(Status("}(Nu."),
              StatusIs(kInvalidPickle, HasSubstr("1 keys and values are set in a dictionary")));
  EXPECT_THAT(Status("NNNs."),
              StatusIs(kInvalidPickle, HasSubstr("2 keys and values are set in None")));
  EXPECT_THAT(Status("}Na."),
              StatusIs(kInvalidPickle, HasSubstr("1 values are added to a dictionary")));
}

TEST(TensorPickleTest, SurvivesCirclesAndDepth) {
  const auto read = [](const std::string& pickle) {
    return ReadTensorPickle(pickle, "x").status();
  };
  EXPECT_THAT(read(Raw("}q\x00\x8c\x01"
                       "ah\x00s.")),
              StatusIs(kInvalidPickle,
                       HasSubstr("x: 'a' is a dictionary (found 'a'): expected tensors alone")));
  EXPECT_THAT(read(")" + std::string(1 << 20, '\x85') + "."),
              StatusIs(kInvalidPickle, HasSubstr("it contains a tuple")));
  EXPECT_THAT(read(std::string(1 << 20, '(') + "."),
              StatusIs(kInvalidPickle, HasSubstr("a value is expected")));
  EXPECT_THAT(
      read(std::string(kLargestPickle + 1, '(')),
      StatusIs(kInvalidPickle, HasSubstr("x: it has 16777217 bytes, more than the 16777216")));
  const std::string inner = Raw("ctorch._utils\n_rebuild_parameter\nq\x00(NNNtRq\x01");
  EXPECT_THAT(read("}\x8c\x01"
                   "a" +
                   inner + "s."),
              StatusIs(kInvalidPickle, HasSubstr("'a' is None")));
  EXPECT_THAT(read(Raw("}\x8c\x01"
                       "a") +
                   inner + Raw("0h\x00(h\x01NNtRs.")),
              StatusIs(kInvalidPickle, HasSubstr("'a' is torch._utils._rebuild_parameter(...)")));
}

TEST(TensorPickleTest, RefusesTensorsThatAreNotPlain) {
  const std::string tensor = "ctorch._utils\n_rebuild_tensor_v2\n",
                    storage =
                        Raw("(\x8c\x07storagectorch\nFloatStorage\n\x8c\x01"
                            "0NK\x04tQ");
  const auto with = [&](const std::string& arguments) {
    return ReadTensorPickle(
               "}\x8c\x01"
               "a" +
                   tensor + "(" + arguments + "tRs.",
               "x")
        .status();
  };
  const std::string place = Raw("K\x00K\x02\x85K\x01\x85");
  EXPECT_THAT(with(storage + place + "\x89N"), IsOk());
  EXPECT_THAT(with(storage + place + "\x89NN"), IsOk());
  EXPECT_THAT(with(storage + place + "\x89N}"),
              StatusIs(kInvalidPickle, HasSubstr("x: a: it is more than a plain tensor")));
  EXPECT_THAT(
      with(storage + place),
      StatusIs(kInvalidPickle, HasSubstr("x: a: a tensor is made from 4 values, expected 6")));
  EXPECT_THAT(with("N" + place + "\x89N"),
              StatusIs(kInvalidPickle, HasSubstr("x: a: its storage is None")));
  EXPECT_THAT(with("NQ" + place + "\x89N"),
              StatusIs(kInvalidPickle, HasSubstr("its storage is not described by")));
  EXPECT_THAT(with(Raw("(\x8c\x07storagectorch.storage\nUntypedStorage\n\x8c\x01"
                       "0NK\x04tQ") +
                   place + "\x89N"),
              StatusIs(kInvalidPickle,
                       HasSubstr("its storage is torch.storage.UntypedStorage: not supported")));
  EXPECT_THAT(with(storage + Raw("J\xff\xff\xff\xffK\x02\x85K\x01\x85") + "\x89N"),
              StatusIs(kInvalidPickle, HasSubstr("its offset is a whole number")));
  EXPECT_THAT(with(storage + Raw("K\x00J\xff\xff\xff\xff\x85K\x01\x85") + "\x89N"),
              StatusIs(kInvalidPickle, HasSubstr("its shape: expected whole numbers")));
  EXPECT_THAT(with(storage + Raw("K\x00K\x02\x85K\x01K\x01\x86") + "\x89N"),
              StatusIs(kInvalidPickle, HasSubstr("it has 1 sizes and 2 strides")));
  EXPECT_THAT(with(storage + Raw("K\x00(") + std::string(65, 'N') + "t)" + "\x89N"),
              StatusIs(kInvalidPickle, HasSubstr("expected a tuple of at most 64")));
}

}  // namespace
}  // namespace moonring::model
