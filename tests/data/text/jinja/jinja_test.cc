// Templates in Jinja2's language: texts equal those of Transformers byte for byte; errors name
// their lines; limits hold.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/text/jinja/template.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/runfiles.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data::jinja {
namespace {

using ::moonring::testing::ReadRunfile;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

OrderedJson Golden() { return OrderedJson::parse(ReadRunfile("tests/golden/jinja/cases.json")); }

absl::StatusOr<std::string> Rendered(const std::string& source,
                                     const OrderedJson& context = OrderedJson::object(),
                                     const RenderOptions& options = {}) {
  const auto parsed = Template::Parse(source, "chat");
  return parsed.ok() ? parsed->Render(context, options)
                     : absl::StatusOr<std::string>(parsed.status());
}

std::string TextOf(const std::string& source, const OrderedJson& context = OrderedJson::object()) {
  const auto text = Rendered(source, context);
  return text.ok() ? *text : std::string(text.status().message());
}

// Expects the text `wanted`, or an error if `wanted` is null because Jinja2 raises one.
void ExpectEqual(const absl::StatusOr<std::string>& text, const OrderedJson& wanted,
                 const std::string& told) {
  if (wanted.is_null()) {
    EXPECT_THAT(text, StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_)) << told;
  } else {
    ASSERT_TRUE(text.ok()) << told << "\n" << text.status();
    EXPECT_EQ(*text, wanted.get<std::string>()) << told;
  }
}

class JinjaTest : public ::testing::Test {
 protected:
  void SetUp() override { setenv("TZ", "UTC", 1); }
};

TEST_F(JinjaTest, PiecesAreAsJinja2HasThem) {
  const OrderedJson golden = Golden();
  for (const OrderedJson& piece : golden["pieces"]) {
    const std::string source = piece["template"].get<std::string>();
    ExpectEqual(Rendered(source, golden["values"], {.now = golden["now"].get<int64_t>()}),
                piece["text"], source);
  }
  EXPECT_GT(golden["pieces"].size(), 400);
}

TEST_F(JinjaTest, ChatsAreAsTransformersHasThem) {
  const OrderedJson golden = Golden();
  for (const auto& [name, chat] : golden["chats"].items()) {
    const auto parsed = Template::Parse(chat["template"].get<std::string>(), name);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    for (const auto& [talk, text] : chat["texts"].items()) {
      ExpectEqual(
          parsed->Render(golden["conversations"][talk], {.now = golden["now"].get<int64_t>()}),
          text, name + ": " + talk);
    }
  }
}

struct Refusal {
  std::string source, message;
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
};

TEST_F(JinjaTest, ErrorsSayWhereAndWhat) {
  constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
  const std::vector<Refusal> refusals = {
      {"a\nb {{ x.y }}", "chat:2: 'x' is undefined"},
      {"{% set d = {} %}\n\n{{ d.a.b }}", "chat:3: 'dict object' has no attribute 'a'"},
      {"\n{{ raise_exception('Roles must alternate') }}", "chat:2: Roles must alternate"},
      {"{% for i in [1] %}\n{{ i.append(1) }}\n{% endfor %}",
       "chat:2: 'int object' has no attribute 'append'"},
      {"{{ [].append(1) }}", "chat:1: access to attribute 'append' of 'list' object is unsafe."},
      {"{% if x %}\n",
       "chat:1: Unexpected end of template: 'elif' or 'else' or 'endif' is missing"},
      {"\n{% nope %}", "chat:2: Encountered unknown tag 'nope'."},
      {"{{ 'a' | nope }}", "chat:1: No filter named 'nope'."},
      {"{{ 1 is nope }}", "chat:1: No test named 'nope'."},
      {"{{ 'a' + 1 }}", "chat:1: can only concatenate str (not \"int\") to str"},
      {"{% macro m(a) %}{{ a.b }}{% endmacro %}\n{{ m() }}",
       "chat:1: parameter 'a' was not provided"},
      {"\n\n{{ 'a }}", "chat:3: unexpected char '''"},
      {"{% include 'x' %}", "chat:1: not supported: the tag 'include'", kUnimplemented},
      {"\n{% for x in [] recursive %}{% endfor %}", "chat:2: not supported: recursive loops",
       kUnimplemented},
      {"{{ [] | groupby('x') }}", "chat:1: not supported: the filter 'groupby'", kUnimplemented},
      {"{{ 'a'.translate({}) }}", "chat:1: not supported: the method str.translate",
       kUnimplemented},
      {"{{ 9223372036854775807 + 1 }}", "chat:1: not supported: integers beyond 64 bits",
       kUnimplemented},
      {"{{ 2 ** 64 }}", "chat:1: not supported: integers beyond 64 bits", kUnimplemented},
  };
  for (const Refusal& refusal : refusals)
    EXPECT_THAT(Rendered(refusal.source), StatusIs(refusal.code, HasSubstr(refusal.message)))
        << refusal.source;
}

// A template that exceeds the limits of time, memory or stack ends with an error.
TEST_F(JinjaTest, LimitsHold) {
  const auto nested = [](const std::string& open, const std::string& inner,
                         const std::string& close, int times) {
    std::string text = inner;
    for (int i = 0; i < times; ++i) text = open + text + close;
    return text;
  };
  const std::vector<std::string> exhausting = {
      "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor "
      "%}{% endfor %}{% endfor %}",
      "{{ 'x' * 9999999999 }}",
      "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s "
      "%}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% "
      "endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% "
      "endfor %}{{ ns.l }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% "
      "endfor %}{{ ns.l | tojson }}",
      "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] "
      "%}{% set ns.m = [ns.m, ns.m] %}{% endfor %}{{ ns.l == ns.m }}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{{ 'a'.center(9999999999) }}",
      "{{ 'ab'.replace('', 'x' * 999999).replace('x', 'x' * 999999) }}",
      "{{ '%9999999d' | format(1) * 999 }}",
      "{{ ('a\n' * 99999) | indent(999999) }}",
      "{{ [[1]] | tojson(indent=999999999999) }}",
      // Long texts that are read repeatedly.
      "{% set s = 'a' * 99999 %}{% for i in range(9999) %}{{ s.find('b') }}{{ s[-1] }}{% endfor %}",
      "{% set s = 'a' * 99999 %}{% for i in range(9999) %}{{ s | length }}{% endfor %}",
      "{% set s = 'a' * 99999 %}{% for i in range(9999) %}{% set x = s.isalpha() %}{% endfor %}",
      // Splitting into more pieces than there are bytes of memory for.
      "{{ ('a' * 999999).split('a') | length }}",
      "{{ ('\n' * 999999).splitlines() | length }}",
      "{{ ('a' * 999999).replace('a', '') | length }}",
      // Copies that are not freed.
      "{% set s = '&' * 99999 %}{% set ns = namespace(l=[]) %}{% for i in range(99) %}{% set ns.l "
      "= "
      "ns.l + [s | safe, s | e] %}{% endfor %}",
      "{{ (['A' * 99999] * 99) | sort | length }}",
      "{% set l = [1] * 99999 %}{% for a in l %}{% for b in l %}{% endfor %}{% endfor %}",
      "{% set d = dict(range(999) | batch(2, 0) | list) %}{% set ns = namespace(l=[]) %}{% for i "
      "in range(9999) %}{% "
      "set ns.l = [namespace(d)] %}{% endfor %}",
      // Results that are created before their size is known.
      "{{ ('{0}' * 99999).format('a' * 99999) | length }}",
      "{{ ('%s' * 99999) % (('a' * 99999,) * 99999) }}",
      "{{ strftime_now('a' * 999999) }}",
      "{{ ['\x01' * 4999999] | string }}",
      // Keys that take exponential time to hash or compare.
      "{% set ns = namespace(t=(1,)) %}{% for i in range(99) %}{% set ns.t = (ns.t, ns.t) %}{% "
      "endfor "
      "%}{{ {1: 2}[ns.t] }}",
      "{% set ns = namespace(t=(1,)) %}{% for i in range(99) %}{% set ns.t = (ns.t, ns.t) %}{% "
      "endfor "
      "%}{{ {1: 2}.get(ns.t) }}",
  };
  // The limits are a hundredth of the usual ones, so that the loops end sooner.
  const RenderOptions few = {.limits = {.steps = 500'000, .bytes = 5'000'000}};
  for (const std::string& source : exhausting)
    EXPECT_THAT(Rendered(source, OrderedJson::object(), few),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("takes more than ")))
        << source;
  EXPECT_THAT(Rendered("{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = "
                       "[ns.l] %}{% endfor %}"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("values within one another")));
  for (const std::string& source :
       {"{{ " + nested("(", "1", ")", 10'000) + " }}", "{{ " + nested("[", "", "]", 10'000) + " }}",
        "{{ " + nested("not ", "1", "", 10'000) + " }}",
        "{{ " + nested("-", "1", "", 10'000) + " }}",
        "{{ " + nested("1 + ", "1", "", 10'000) + " }}",
        "{{ x" + nested("|trim", "", "", 10'000) + " }}",
        nested("{% if 1 %}", "", "{% endif %}", 10'000),
        "{% if 1 %}" + nested("{% elif 1 %}", "", "", 10'000) + "{% endif %}",
        "{% set " + nested("(", "a", ")", 10'000) + " = 1 %}"}) {
    EXPECT_THAT(Rendered(source),
                StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("not supported: more than ")))
        << source.substr(0, 60);
  }
  OrderedJson deep = OrderedJson::array();
  for (int i = 0; i < 2000; ++i) deep = OrderedJson::array({std::move(deep)});
  EXPECT_THAT(Rendered("{{ x }}", {{"x", deep}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("values within one another")));
  EXPECT_THAT(
      Rendered("{{ 'x' * 100 }}", OrderedJson::object(), {.limits = {.bytes = 64}}),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("takes more than 64 bytes")));
}

// Substring searches take linear time; with std::string's search, these would take minutes.
TEST_F(JinjaTest, SearchesInLinearTime) {
  const auto made = [](const std::string& expression) {
    return TextOf(
        "{% set s = 'a' * 500000 %}{% set n = 'a' * 250000 ~ 'b' %}{% set m "
        "= 'b' ~ 'a' * 250000 %}{{ " +
        expression + " }}");
  };
  EXPECT_EQ(made("s.find(n) ~ s.rfind(m) ~ s.count(n)"), "-1-10");
  EXPECT_EQ(made("(n in s) ~ (m is in s)"), "FalseFalse");
  EXPECT_EQ(made("s.split(n)|length ~ s.rsplit(m)|length ~ s.partition(n)|length"), "113");
  EXPECT_EQ(made("s.replace(n, '')|length ~ (s|replace(m, ''))|length"), "500000500000");
  EXPECT_EQ(made("(s ~ n).find(n) ~ ' ' ~ (s ~ n).rfind(n)"), "500000 500000");
}

TEST_F(JinjaTest, SearchesFindWhatTheStandardLibraryFinds) {
  uint32_t random = 1;
  const auto text_of = [&](size_t most) {
    std::string text((random = random * 1664525 + 1013904223) >> 16 & most, 'a');
    for (char& c : text) c += (random = random * 1664525 + 1013904223) >> 24 & 1;
    return text;
  };
  for (int i = 0; i < 500; ++i) {
    const std::string text = text_of(31), part = text_of(3);
    const auto place = [](size_t at) {
      return at == std::string::npos ? std::string("-1") : absl::StrCat(at);
    };
    EXPECT_EQ(TextOf("{{ s.find(p) }} {{ s.rfind(p) }} {{ p in s }}", {{"s", text}, {"p", part}}),
              absl::StrCat(place(text.find(part)), " ", place(text.rfind(part)), " ",
                           text.find(part) == std::string::npos ? "False" : "True"))
        << text << " " << part;
  }
}

// Dictionary keys are equal if they are equal in Python, and the last of several equal keys counts.
TEST_F(JinjaTest, KeysOfEveryKindAreFound) {
  EXPECT_EQ(TextOf("{% set d = {1: 'one', 2.5: 'half', none: 'no', (1, 'a'): 'pair', 'x': 'x', "
                   "true: 'true'} %}{{ d[1] }} {{ d[1.0] }} {{ d[true] }} {{ d[2.5] }} {{ "
                   "d[none] }} {{ d[(1.0, 'a')] }} {{ d['x'] }} {{ d[2] is defined }} {{ "
                   "d|length }} {{ d.get((true, 'a')) }} {{ [[1]] is in [d] }} {{ "
                   "[1, 1.0, true, 2, 'a', 'A', (1,), (1,)] | unique | list }}"),
            "true true true half no pair x False 5 pair False [1, 2, 'a', (1,)]");
}

// A conversation of one megabyte stays far below the limits.
TEST_F(JinjaTest, LongConversationsFit) {
  OrderedJson messages = OrderedJson::array();
  for (int i = 0; i < 1000; ++i)
    messages.push_back(
        {{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::string(5000, 'x')}});
  const auto text = Rendered(
      "{% for m in messages %}{% for n in messages[::-1] %}{% if loop.first %}{{ n.role }}{% endif "
      "%}{% endfor %}{{ '<' + m['content'] | trim + '>' }}{% "
      "endfor %}",
      {{"messages", messages}});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->size(), 1000 * (5002 + 9));
}

}  // namespace
}  // namespace moonring::data::jinja
