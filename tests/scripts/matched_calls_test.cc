// Scripts whose ranks make different calls: found within seconds, with the line of each rank; and
// loops over named losses, which are legal.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"
#include "tests/testing/busy_port.h"

namespace moonring::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kRule[] = ": all ranks of a group must make the same calls in the same order";

class MatchedCallsTest : public Workplace {
 protected:
  // Runs a script whose mesh is `mesh`, sp of 2 ranks. The deadline is far beyond the test's time.
  CommandResult RunScript(int ranks, const std::string& text) const {
    Write("script.lua", "local moonring = require 'moonring'\n"
                        "local mesh = moonring.comm.mesh { sp = 2 }\n" + text);
    return Run(OnRanks(ranks) + Words{"script.lua"});
  }

  static void ExpectFound(const CommandResult& result, const std::vector<std::string>& words) {
    EXPECT_EQ(result.exit_code, 1) << result.Describe();
    for (const std::string& each : words) EXPECT_THAT(result.err, HasSubstr(each));
    EXPECT_THAT(result.err, AllOf(HasSubstr(kRule), Not(HasSubstr("ended by signal"))))
        << result.Describe();
  }
};

TEST_F(MatchedCallsTest, EachDifferenceIsNamedAndTheMeshStaysUsable) {
  Write("matched_calls.lua", ReadText(Runfile("tests/scripts/matched_calls.lua")));
  for (const int ranks : {2, 4}) {
    const CommandResult result = Run(OnRanks(ranks) + Words{"matched_calls.lua"});
    EXPECT_THAT(result, Succeeds());
    std::string all;
    for (int rank = 0; rank < ranks; ++rank) all += "all found\n";
    EXPECT_EQ(result.out, all) << result.Describe();
  }
}

TEST_F(MatchedCallsTest, AnUncaughtDifferenceEndsAllRanks) {
  for (const int ranks : {2, 4}) {
    ExpectFound(RunScript(ranks, "if mesh:rank() == 1 then\n"
                                 "  mesh:sum_sp(moonring.ones(3))\n"
                                 "else\n"
                                 "  mesh:sum_sp(moonring.ones(3, { dtype = 'int64' }))\n"
                                 "end\n"
                                 "mesh:barrier()\n"),
                {"rank 0 called mesh:sum_sp of int64 [3] (script.lua:6)",
                 "rank 1 called mesh:sum_sp of fp32 [3] (script.lua:4)"});
  }
}

// The two calls never meet.
TEST_F(MatchedCallsTest, CallsOnDifferentGroups) {
  for (const int ranks : {2, 4}) {
    ExpectFound(RunScript(ranks, "if mesh:rank() == 0 then\n"
                                 "  mesh:sum_sp(moonring.ones(3))\n"
                                 "else\n"
                                 "  mesh:sum(1)\n"
                                 "end\n"),
                {"rank 0 called mesh:sum_sp of fp32 [3] (script.lua:4) on group 'sp",
                 "rank 1 called mesh:sum (script.lua:6) on group 'world'"});
  }
}

TEST_F(MatchedCallsTest, ARankWhoseScriptHasEnded) {
  const std::string text = "if mesh:rank() ~= tonumber(arg[1]) then mesh:barrier() end\n";
  for (const int ranks : {2, 4}) {
    RunScript(ranks, text);
    const CommandResult result = Run(OnRanks(ranks) + Words{"script.lua", "1"});
    EXPECT_EQ(result.exit_code, 1) << result.Describe();
    EXPECT_THAT(result.err, AllOf(HasSubstr("rank 1 has "), HasSubstr("script.lua:3"),
                                  HasSubstr("mesh:barrier")));
  }
  // Rank 0 serves the store, so it waits for the others before it ends.
  const std::string port = FreePort();
  std::vector<std::unique_ptr<Command>> ranks;
  for (const char* rank : {"0", "1"}) {
    CommandOptions options = Options({"script.lua", "0"});
    options.environment.merge(std::map<std::string, std::string>{
        {"RANK", rank}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}});
    ranks.push_back(std::make_unique<Command>(options));
  }
  const CommandResult waits = ranks[1]->Wait();
  EXPECT_EQ(waits.exit_code, 1) << waits.Describe();
  EXPECT_THAT(waits.err, HasSubstr("rank 0 has ended its script, rank 1 called mesh:barrier "
                                   "(script.lua:3)"));
  EXPECT_EQ(ranks[0]->Wait().exit_code, 0);
}

// The engine's own call on one rank, a script's on another.
TEST_F(MatchedCallsTest, ACallOfTheEngine) {
  WriteModel("model");
  const CommandResult result = RunScript(
      2,
      "local model = moonring.model.load(moonring.model.open 'model')\n"
      "local attention = moonring.attention.create { mesh = mesh, strategy = 'ulysses' }\n"
      "local sequence = moonring.comm.sequence { documents = { { 5, 6, 7, 8, 9 }, { 3, 4 } } }\n"
      "local ids, positions, _, plan = attention:cut(sequence)\n"
      "if mesh:rank() == 0 then\n"
      "  mesh:sum(1)\n"
      "else\n"
      "  model:forward(ids, positions, plan)\n"
      "end\n");
  ExpectFound(result, {"rank 0 called mesh:sum (script.lua:8) on group 'world'", "rank 1 called ",
                       " on group 'sp'"});
}

// Each named loss has its own collective, in its value and in its backward. The sum over ranks of
// k * (rank + 1) for loss number k, and the gradient of the loss's document sums, are known.
TEST_F(MatchedCallsTest, LoopsOverNamedLossesMatch) {
  Write("losses.lua", R"(
    local moonring = require "moonring"
    local mesh = moonring.comm.mesh { sp = 4 }
    local size, me = mesh:size(), mesh:rank() + 1
    local names = { "nll", "focal", "z_loss", "entropy", "kl", "margin", "length", "aux", "cosine",
      "contrast", "router", "value" }
    local factors = {}
    for k, name in ipairs(names) do factors[name] = k end
    local triangle = size * (size + 1) / 2
    local attention = moonring.attention.create { mesh = mesh, strategy = "all-gather" }
    local documents = { {}, {}, {}, {} } -- one for each rank
    for _, document in ipairs(documents) do
      for i = 1, 64 do document[i] = i end
    end
    local sequence = moonring.comm.sequence { documents = documents }
    local _, _, _, _, layout = attention:cut(sequence)
    local tokens = layout:local_tokens(mesh:sp_rank())
    for _, walk in ipairs { pairs, function(t) return next, t end } do
      local order = {}
      local weight = moonring.ones(tokens, { dtype = "fp64", requires_grad = true })
      local expected = 0
      for name, factor in walk(factors) do
        order[#order + 1] = name
        assert(mesh:sum(factor * me) == factor * triangle, name)
        local sums = moonring.objectives.document_sums(weight * factor, layout, mesh)
        for i = 0, 3 do assert(sums[i]:item() == 64 * factor, name) end
        sums:square():sum():backward()
        expected = expected + 2 * 64 * factor * factor
      end
      assert((weight:grad() - expected):abs():sum():item() == 0)
      local mine = table.concat(order, " ")
      for _, other in ipairs(mesh:gather(mine)) do assert(other == mine) end
      table.sort(names)
      assert(mine == table.concat(names, " "))
    end
    print "equal"
  )");
  for (int run = 0; run < 2; ++run) {
    const CommandResult result = Run({"-n", "4", "losses.lua"});
    EXPECT_THAT(result, Succeeds());
    EXPECT_EQ(result.out, "equal\nequal\nequal\nequal\n") << result.Describe();
  }
}

}  // namespace
}  // namespace moonring::testing
