#include "base/text/visible_text.h"

#include <string>

#include <gtest/gtest.h>

namespace moonring::base {
namespace {

TEST(VisibleTextTest, SpellsOutWhatATerminalObeys) {
  EXPECT_EQ(VisibleText("\x1b]0;title\a"), "\\x1b]0;title\\x07");
  EXPECT_EQ(VisibleText("a\rb\bc\x7f"), "a\\x0db\\x08c\\x7f");
  EXPECT_EQ(VisibleText(absl::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(VisibleText("\u009b31m\u0085"), "\\u009b31m\\u0085");
  EXPECT_EQ(VisibleText("\u202egnp.exe\u2066"), "\\u202egnp.exe\\u2066");
}

TEST(VisibleTextTest, LeavesTextAsItIs) {
  const std::string text = "line\n\ttab \\x1b gr\u00fc\u00df \u6708 \U0001f319 \u200d\u00a0 \u05d0";
  EXPECT_EQ(VisibleText(text), text);
  EXPECT_EQ(VisibleText(VisibleText("\x1b\u009b")), VisibleText("\x1b\u009b"));
  EXPECT_EQ(VisibleText(""), "");
}

// Bytes that are not UTF-8 are escaped: for a terminal in Latin-1, 0x9b begins a control sequence.
TEST(VisibleTextTest, SpellsOutBytesThatAreNoUtf8) {
  EXPECT_EQ(VisibleText("\x9b"
                        "31m"),
            "\\x9b31m");
  EXPECT_EQ(VisibleText("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(VisibleText("\xc0\x9b"), "\\xc0\\x9b");  // an overlong form of ESC
  EXPECT_EQ(VisibleText("\xe0\x80\x9b"), "\\xe0\\x80\\x9b");
  EXPECT_EQ(VisibleText("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a surrogate pair
  EXPECT_EQ(VisibleText("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(VisibleText("\xe6\x9c"), "\\xe6\\x9c");  // truncated
}

}  // namespace
}  // namespace moonring::base
