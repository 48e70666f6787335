// Custom document masks in Lua: documents with a shared prompt give the same results as copies of
// the prompt, also with windows and chains of parents; the example of a prefix mask does not depend
// on the number of ranks; and invalid masks.

#include <cmath>
#include <regex>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using ::testing::HasSubstr;

// The start of the scripts: a model in fp64 and a custom objective.
constexpr char kBegin[] = R"lua(
  local moonring = require "moonring"
  local opt = moonring.flags { sp = 1, strategy = "zigzag-ring" }
  moonring.launch(opt.sp)
  local mesh = moonring.comm.mesh { sp = opt.sp, deadline = 60 }
  local model = moonring.model.load(moonring.model.open "model", { precision = "fp64" })
  local attention = moonring.attention.create { mesh = mesh, strategy = opt.strategy }
  local function always(value) return function() return value end end
)lua";

class MasksTest : public Workplace {
 protected:
  MasksTest() { WriteModel("model"); }

  CommandResult RunScript(const std::string& text, const Words& words = {}) const {
    Write("mine.lua", kBegin + text);
    Words all = {"mine.lua"};
    all.insert(all.end(), words.begin(), words.end());
    return Run(all);
  }
};

// A document with a parent continues the parent's text, so its loss and all gradients must equal
// those of documents that repeat the shared text.
constexpr char kShared[] = R"lua(
  local function text(first, tokens)
    local ids = {}
    for i = 1, tokens do ids[i] = (first * 31 + i * 17) % 600 + 3 end
    return ids
  end
  local function joined(...)
    local all = {}
    for _, ids in ipairs { ... } do
      for _, id in ipairs(ids) do all[#all + 1] = id end
    end
    return all
  end
  -- Of ids the last n but one are learnt: the first of them nobody predicts where they are shared.
  local function labels(ids, n)
    local learnt = {}
    for i, id in ipairs(ids) do learnt[i] = i > #ids - n + 1 and id or -100 end
    return learnt
  end
  local function positions(from, n)
    local places = {}
    for i = 1, n do places[i] = from + i - 1 end
    return places
  end
  local prompt, a, b, turn = text(1, 150), text(2, 70), text(3, 1), text(4, 66)
  local c = text(5, 30) -- looks into a part of the prompt
  local cut = {}
  for i = 1, 100 do cut[i] = prompt[i] end

  -- Answers a and b to the prompt, a turn after a, and c.
  local shared = {
    documents = { turn, a, prompt, b, c },
    labels = { labels(turn, 66), labels(a, 70), labels(prompt, 0), labels(b, 1), labels(c, 30) },
    positions = { positions(220, 66), positions(150, 70), positions(0, 150), positions(150, 1),
      positions(100, 30) },
  }
  local parents = { [1] = { document = 2, length = 70 }, [2] = { document = 3, length = 150 },
    [4] = { document = 3, length = 150 }, [5] = { document = 3, length = 100 } }
  local apart = { documents = { joined(prompt, a), joined(prompt, b), joined(prompt, a, turn),
    joined(cut, c) } }
  apart.labels = { labels(apart.documents[1], 70), labels(apart.documents[2], 1),
    labels(apart.documents[3], 66), labels(apart.documents[4], 30) }

  local function run(of, mask)
    local sequence = moonring.comm.sequence(of)
    local masks = moonring.masks.of(sequence:lengths(), mask)
    local ids, positions, targets, plan = attention:cut(sequence, masks)
    local hidden = model:forward(ids, positions, plan)
    local loss = -moonring.objectives.log_prob(hidden, model:head(), targets):sum()
    loss:backward()
    moonring.trainer.sum_gradients(model:parameters(), mesh)
    local gradients = {}
    for i, parameter in ipairs(model:parameters():list()) do
      gradients[i] = parameter:gradient() * 1
    end
    model:parameters():clear_gradients()
    return mesh:sum(loss:item()), gradients
  end

  local worst, total = 0, 0
  for _, windows in ipairs { {}, { window = 40 }, { layers = { { window = 2 }, {} } },
    { layers = { { window = 75 }, { window = 200 } } } } do
    local mask = { parents = parents }
    for name, value in pairs(windows) do mask[name] = value end
    local want, gradients = run(apart, windows)
    local got, same = run(shared, mask)
    worst, total = math.max(worst, math.abs(got / want - 1)), total + got
    for i, gradient in ipairs(gradients) do
      local gap = gradient - same[i]
      local norm = (gradient * gradient):sum():item()
      worst = math.max(worst, math.sqrt((gap * gap):sum():item() / norm))
    end
  end
  if mesh:rank() == 0 then print(("worst %.3g total %.12g"):format(worst, total)) end
)lua";

TEST_F(MasksTest, ASharedPromptGivesWhatItsCopiesGive) {
  std::string total;
  for (const Words& words : std::vector<Words>{{"sp=1"},
                                               {"sp=2"},
                                               {"sp=4"},
                                               {"sp=2", "strategy=ulysses"},
                                               {"sp=4", "strategy=all-gather"},
                                               {"sp=4", "strategy=usp"},
                                               {"sp=4", "strategy=double-ring"}}) {
    SCOPED_TRACE(words.back());
    const CommandResult result = RunScript(kShared, words);
    ASSERT_THAT(result, Succeeds());
    std::smatch found;
    ASSERT_TRUE(std::regex_search(result.out, found, std::regex(R"(worst (\S+) total (\S{11}))")))
        << result.out;
    EXPECT_LT(std::stod(found[1]), 1e-10);
    if (total.empty()) total = found[2];
    EXPECT_EQ(found[2], total);
  }
}

// Two of Gemma 3's three layers have a window of 7: a mask with the same window in these layers
// changes nothing; a mask with windows in other layers does.
TEST_F(MasksTest, LayersTakeTheirOwn) {
  const std::string gemma = Runfile("tests/golden/families/gemma3");
  const CommandResult result = RunScript("local gemma = '" + gemma + "'" + R"lua(
    model = moonring.model.load(moonring.model.open(gemma), { precision = "fp64" })
    local ids = {}
    for i = 1, 40 do ids[i] = i % 30 + 3 end
    local sequence = moonring.comm.sequence { documents = { ids } }
    local function sum(mask)
      local masks = mask and moonring.masks.of(sequence:lengths(), mask)
      local ids, positions, _, plan = attention:cut(sequence, masks)
      local hidden = model:forward(ids, positions, plan)
      return (hidden * hidden * hidden):sum():item()
    end
    local own, wide = { window = 7 }, { window = 0 }
    local plain = sum()
    assert(sum { layers = { own, own, wide } } == plain)
    assert(sum { layers = { false } } == plain)
    assert(sum { prefix = { 1 }, layers = { own, own, { prefix = { 0 }, window = 0 } } } ~= plain)
    assert(sum { prefix = { 9 }, layers = { { prefix = false }, false } } == plain)
    for _, layers in ipairs { { own, wide, own }, { wide, own, own }, { wide }, { own } } do
      assert(math.abs(sum { layers = layers } / plain - 1) > 1e-6)
    end
    print "each its own"
  )lua");
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.out, HasSubstr("each its own"));
}

class PrefixMaskTest : public MasksTest {
 protected:
  // Returns all numbers in the output's lines that begin with "step".
  std::vector<double> Steps(const Words& options, const Words& more) const {
    const std::string home = Runfile("tests/golden/stages");
    Words words = options;
    for (const std::string& word :
         {Runfile("scripts/examples/prefix_mask.lua"), "model=" + home + "/model",
          "dir=" + home + "/data", std::string("data=talks"), std::string("template=chatml"),
          std::string("batch=6"), std::string("steps=3"), std::string("lr=1e-3"),
          std::string("window=20")})
      words.push_back(word);
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = Run(words);
    EXPECT_THAT(result, Succeeds());
    std::vector<double> numbers;
    const std::regex number(R"((loss|grad_norm) +([0-9.e+-]+))");
    for (std::sregex_iterator found(result.out.begin(), result.out.end(), number), end;
         found != end; ++found)
      numbers.push_back(std::stod((*found)[2]));
    return numbers;
  }
};

// Numbers are printed with four to six decimals: they may differ by one in the last decimal, plus
// fp32 rounding over a few AdamW steps.
TEST_F(PrefixMaskTest, TheExampleGivesTheSameOnAnyRanks) {
  const std::vector<double> alone = Steps({}, {});
  ASSERT_EQ(alone.size(), 6);
  const auto expect = [&](const std::vector<double>& numbers) {
    ASSERT_EQ(numbers.size(), alone.size());
    for (size_t i = 0; i < numbers.size(); ++i)
      EXPECT_NEAR(numbers[i], alone[i], 1e-4 * std::fabs(alone[i])) << i;
  };
  expect(Steps({}, {"micro_tokens=1"}));
  expect(Steps({"-n", "2"}, {"sp=2"}));
  expect(Steps({"-n", "4"}, {"sp=4", "strategy=usp"}));
  expect(Steps({"-n", "2"}, {"sp=1"}));  // dp 2
  expect(Steps({"-n", "4"}, {"sp=2", "strategy=all-gather", "micro_tokens=300"}));
}

TEST_F(MasksTest, RefuseInvalidInput) {
  const CommandResult result = RunScript(R"lua(
    local sequence = moonring.comm.sequence { documents = { { 5, 6, 7, 8 }, { 3, 4 } },
      labels = { { -100, -100, 7, 8 }, { -100, -100 } } }
    local function refused(words, f, ...)
      local done, text = pcall(f, ...)
      local found = not done and tostring(text):find(words, 1, true)
      assert(found, done and "nothing was refused; expected: " .. words or text)
    end
    local function mask(given) return moonring.masks.of(sequence:lengths(), given) end
    assert(table.concat(sequence:prompts(), " ") == "2 2")
    refused("mask: INVALID_ARGUMENT: unknown option 'prefixes' (did you mean 'prefix'?)", mask,
      { prefixes = {} })
    refused("mask.layers: INVALID_ARGUMENT: unknown option 'layers'", mask,
      { layers = { { layers = {} } } })
    refused("mask: INVALID_ARGUMENT: layers: expected one at least", mask, { layers = {} })
    refused("prefix: 1 numbers for 2 documents", mask, { prefix = { 1 } })
    refused("mask: document 0 of 0..1: a prefix of 5 tokens, it has 4", mask,
      { prefix = { 5, 0 } })
    refused("mask.parents: INVALID_ARGUMENT: document 3: expected 1 to 2", mask,
      { parents = { [3] = { document = 1, length = 1 } } })
    refused("option 'length' is missing", mask, { parents = { [2] = { document = 1 } } })
    refused("document 1 of 0..1: 5 tokens of its parent, document 0, which has 4", mask,
      { parents = { [2] = { document = 1, length = 5 } } })
    refused("document 0 of 0..1: its parents go in a circle", mask,
      { parents = { { document = 2, length = 1 }, { document = 1, length = 1 } } })
    refused("mask: a window of -1 tokens", mask, { window = -1 })
    local other = moonring.masks.of({ 3 }, { prefix = { 3 } })
    refused("mask 0 is of documents of other lengths", attention.cut, attention, sequence, other)
    refused("positions of 1 documents for 2", moonring.comm.sequence,
      { documents = { { 1 }, { 2 } }, positions = { { 0 } } })

    local micro = { sequence = always(sequence), labels = always(sequence:ids()) }
    local batch = require("moonring.run.batch").new(micro, attention, mesh)
    batch:mask(function(of) return { prefix = { of.ids:numel(), 0 } } end)
    refused("are cut by what it returns: use sequence(), labels() and lengths()",
      function() return batch.plan end)
    batch:mask { prefix = { 2, 2 } }
    assert(batch.plan)
    refused("mask: INVALID_ARGUMENT: the batch is cut already", batch.mask, batch, {})
    local kept = require("moonring.run.reference").kept { { 0 } }
    refused("precompute_ref_log_probs: true: the kept log-probs are made without", kept.log_probs,
      kept, batch)
    print "all refused"
  )lua");
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.out, HasSubstr("all refused"));
}

// If masks differ between ranks, there is an error; otherwise ranks would wait for keys that are
// never sent.
TEST_F(MasksTest, RanksThatDifferAreReported) {
  const CommandResult result = RunScript(R"lua(
    local sequence = moonring.comm.sequence { documents = { { 5, 6, 7, 8 } } }
    local batch = require("moonring.run.batch").new({ sequence = always(sequence) }, attention,
                                                    mesh)
    batch:mask { prefix = { mesh:rank() } }
    print(pcall(batch.hidden, batch, model))
  )lua",
                                         {"sp=2"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.out, HasSubstr("DATA_LOSS: mask: the ranks that share a sequence have "
                                    "different ones"));
}

}  // namespace
}  // namespace moonring::testing
