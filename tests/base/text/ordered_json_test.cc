// JSON objects that keep the order of their keys, few or many; they equal those of nlohmann's
// library.
#include "base/text/ordered_json.h"

#include <string>

#include "gtest/gtest.h"

namespace moonring::base {
namespace {

// {"k0":{"n":0},"k1":{"n":1},...}
std::string TextOf(int keys) {
  std::string text = "{";
  for (int i = 0; i < keys; ++i) {
    const std::string number = std::to_string(i);
    text += (i > 0 ? ",\"k" : "\"k") + number + "\":{\"n\":" + number + "}";
  }
  return text + "}";
}

TEST(OrderedJsonTest, ActsAsTheLibrarysOwn) {
  for (const int keys : {0, 1, 16, 17, 100}) {
    const std::string text = TextOf(keys);
    OrderedJson value = OrderedJson::parse(text);
    nlohmann::ordered_json other = nlohmann::ordered_json::parse(text);
    EXPECT_EQ(value.dump(), text);
    const auto change = [&](auto& json) {
      json["z"] = 1;
      json.erase("k3");
      json["a"] = {{"b", 2}, {"a", {1, 2}}};
      json["k3"] = "again, at the end";
      json["k1"] = "in its old place";
      json.emplace("k1", "not taken");
      json.erase(json.find("z"));
      json.update({{"k2", nullptr}, {"new", true}});
      json.push_back({"pushed", 3});
    };
    change(value);
    change(other);
    EXPECT_EQ(value.dump(), other.dump());
    for (const auto& [key, member] : other.items()) {
      ASSERT_TRUE(value.contains(key)) << key;
      EXPECT_EQ(value.at(key).dump(), member.dump());
    }
    EXPECT_FALSE(value.contains("z"));
    OrderedJson copy = value;
    EXPECT_EQ(copy, value);
    copy["k1"] = 5;
    EXPECT_NE(copy, value);
    OrderedJson moved = std::move(copy);
    EXPECT_EQ(moved["k1"], 5);
    copy = moved;
    copy.clear();
    EXPECT_TRUE(copy.empty());
    EXPECT_EQ(moved.size(), value.size());
  }
}

TEST(OrderedJsonTest, TheLastOfEqualKeysIsAtTheFirstOnesPlace) {
  EXPECT_EQ(OrderedJson::parse(R"({"b":1,"a":2,"b":3})").dump(), R"({"b":3,"a":2})");
}

// Reading is fast enough for 200,000 keys. Comparing each key with all earlier ones would take
// minutes.
TEST(OrderedJsonTest, ReadsManyKeys) {
  const OrderedJson value = OrderedJson::parse(TextOf(200'000));
  EXPECT_EQ(value.size(), 200'000);
  EXPECT_EQ(value["k199999"]["n"], 199'999);
}

}  // namespace
}  // namespace moonring::base
