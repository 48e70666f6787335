// Steps of token ids that a script has at hand: what comes out of data.step, and what is said of
// wrong ones.

#include <string>

#include "gtest/gtest.h"
#include "tests/lua/fixture.h"

namespace moonring::lua {
namespace {

class GivenSteps : public VmTest {
 protected:
  std::string Check(const std::string& text) {
    return Run(R"lua(
      local moonring = require "moonring"
      local step_of = moonring.data.step
      local function text(list) return table.concat(list, " ") end
      local function same(got, wanted)
        assert(got == wanted, tostring(got) .. ", wanted " .. tostring(wanted))
      end
      local function refused(words, f, ...)
        local done, message = pcall(f, ...)
        assert(not done and message:find(words, 1, true), done and "nothing was refused; wanted: "
          .. words or message)
      end
    )lua" + text)
        .message;
  }
};

TEST_F(GivenSteps, KeepTheirOrderAndArePacked) {
  EXPECT_EQ(Check(R"lua(
    local step = step_of { micro_batch_tokens = 7, epoch = 2, step = 5, last = true, examples = {
      { ids = { 3, 4, 5 }, labels = { -100, 4, 5 } },
      { ids = { 6, 7, 8, 9 } },
      { documents = { { ids = { 10, 11 } }, { ids = { 10, 12 }, positions = { 4, 5 } } },
        number = 40 } } }
    same(step:epoch(), 2)
    same(step:index(), 5)
    same(step:last(), true)
    same(step:size(), 3)
    same(step:tokens(), 11)
    same(text(step:examples()), "0 1 40")
    same(text(step:lengths()), "3 4 4")
    local micros = step:micro_batches()
    same(#micros, 2)
    -- The longest first, each into the first that has room; then in the step's order.
    same(text(micros[1]:examples()), "0 1")
    same(text(micros[1]:places()), "0 1")
    same(text(micros[1]:sequence():lengths()), "3 4")
    same(text(micros[1]:sequence():ids():tolist()), "3 4 5 6 7 8 9")
    same(text(micros[1]:labels():tolist()), "-100 4 5 6 7 8 9")
    same(text(micros[1]:sequence():targets():tolist()), "4 5 -100 7 8 9 -100")
    same(text(micros[2]:examples()), "40")
    same(text(micros[2]:places()), "2")
    same(text(micros[2]:document_counts()), "2")
    same(text(micros[2]:sequence():positions():tolist()), "0 1 4 5")
  )lua"),
            "");
}

TEST_F(GivenSteps, RefuseWhatCannotBe) {
  EXPECT_EQ(Check(R"lua(
    local function of(example) return { micro_batch_tokens = 8, examples = { { ids = { 1 } },
      example } } end
    refused("data.step: example 2: 2 labels for 1 ids", step_of,
      of { ids = { 1 }, labels = { 1, 2 } })
    refused("data.step: example 2: 1 positions for 2 ids", step_of,
      of { ids = { 1, 2 }, positions = { 0 } })
    refused("data.step: example 2: no tokens", step_of, of { ids = {} })
    refused("data.step: example 2: no tokens", step_of, of { documents = {} })
    refused("data.step: example 2: number -1, wanted none below 0", step_of,
      of { ids = { 1 }, number = -1 })
    refused("option 'ids' is missing", step_of, of { label = { 1 } })
    refused("unknown option 'label'", step_of, of { ids = { 1 }, label = { 1 } })
    refused("unknown option 'ids'", step_of, of { ids = { 1 }, documents = { { ids = { 1 } } } })
    refused("micro_batch_tokens: wanted at least 1, got 0", step_of,
      { micro_batch_tokens = 0, examples = {} })
    refused("option 'micro_batch_tokens' is missing", step_of, { examples = {} })
    same(step_of { micro_batch_tokens = 1, examples = {} }:size(), 0)
  )lua"),
            "");
}

}  // namespace
}  // namespace moonring::lua
