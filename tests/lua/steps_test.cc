// Steps made from token ids that a script provides: the results of data.step, and messages for
// invalid ids.

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
        assert(got == wanted, tostring(got) .. ", expected " .. tostring(wanted))
      end
      local function refused(words, f, ...)
        local done, message = pcall(f, ...)
        assert(not done and message:find(words, 1, true), done and "nothing was refused; expected: "
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

// Common beginnings are shared: in a pair, which is one example, and in a group of answers to one
// prompt, which is three examples.
TEST_F(GivenSteps, ShareWhatTheyBeginWith) {
  EXPECT_EQ(Check(R"lua(
    local given = { micro_batch_tokens = 100, share_prefixes = true, examples = {
      { documents = { { ids = { 3, 4, 5, 6 }, labels = { -100, -100, -100, 6 } },
        { ids = { 3, 4, 5, 7, 8 }, labels = { -100, -100, -100, 7, 8 } } } },
      { ids = { 9, 9, 1 }, labels = { -100, -100, 1 }, family = 4 },
      { ids = { 9, 9, 2, 3 }, labels = { -100, -100, 2, 3 }, family = 4 },
      { ids = { 9, 9, 1 }, labels = { -100, -100, 1 }, family = 4 },
      { ids = { 9, 9, 1 }, labels = { -100, -100, 1 } } } }
    local step = step_of(given)
    same(step:tokens(), 9 + 3 + 4 + 3 + 3)
    local micros = step:micro_batches()
    same(#micros, 1)
    local sequence = micros[1]:sequence()
    same(text(sequence:lengths()), "2 2 3 1 2 3 2 3")
    same(text(sequence:positions():tolist()), "0 1 2 3 2 3 4 0 1 2 1 2 3 1 2 0 1 2")
    same(text(sequence:targets():tolist()),
      "-100 -100 6 -100 7 8 -100 -100 1 -100 2 3 -100 1 -100 -100 1 -100")
    same(text(micros[1]:document_counts()), "2 1 1 1 1")
    same(text(micros[1]:places()), "0 1 2 3 4")
    same(text(sequence:own_documents():tolist()), "1 2 4 5 6 7")
    local parents = sequence:parents()
    for d, of in pairs { [2] = { 1, 2 }, [3] = { 1, 2 }, [5] = { 4, 1 }, [6] = { 4, 1 },
      [7] = { 4, 1 } } do
      same(parents[d].document, of[1])
      same(parents[d].length, of[2])
      parents[d] = nil
    end
    assert(next(parents) == nil)
    -- In other micro-batches as well.
    local again = step:repacked(9):micro_batches()
    same(#again, 3)
    same(text(again[1]:sequence():lengths()), "2 2 3")
    same(text(again[2]:sequence():lengths()), "1 2 3 2")
    given.share_prefixes = false
    sequence = step_of(given):micro_batches()[1]:sequence()
    same(text(sequence:lengths()), "4 5 3 4 3 3")
    assert(sequence:parents() == nil and sequence:own_documents() == nil)
  )lua"),
            "");
}

// The script may specify parents (documents that others continue) itself.
TEST_F(GivenSteps, ASequenceMayHaveParents) {
  EXPECT_EQ(Check(R"lua(
    local function of(parents) return { documents = { { 1, 2 }, { 2, 7 } },
      labels = { { -100, -100 }, { -100, 7 } }, parents = parents } end
    local sequence = moonring.comm.sequence(of { [2] = { document = 1, length = 1 } })
    same(sequence:parents()[2].document, 1)
    same(sequence:parents()[2].length, 1)
    same(text(sequence:own_documents():tolist()), "1")
    assert(moonring.comm.sequence(of {}):parents() == nil)
    local function wrong(words, parents) refused(words, moonring.comm.sequence, of(parents)) end
    wrong("parents: document 3: expected 1 to 2", { [3] = { document = 1, length = 1 } })
    wrong("parents: document 2: its parent is 0, expected 1 to 2",
      { [2] = { document = 0, length = 1 } })
    wrong("option 'length' is missing", { [2] = { document = 1 } })
    wrong("document 1 of 0..1: 3 tokens of its parent, expected 0 to 2",
      { [2] = { document = 1, length = 3 } })
    wrong("document 1 of 0..1: it has targets, but is the parent of other documents",
      { [1] = { document = 2, length = 2 } })
  )lua"),
            "");
}

TEST_F(GivenSteps, RefuseInvalidInput) {
  EXPECT_EQ(Check(R"lua(
    local function of(example) return { micro_batch_tokens = 8, examples = { { ids = { 1 } },
      example } } end
    refused("data.step: example 2: 2 labels for 1 ids", step_of,
      of { ids = { 1 }, labels = { 1, 2 } })
    refused("data.step: example 2: 1 positions for 2 ids", step_of,
      of { ids = { 1, 2 }, positions = { 0 } })
    refused("data.step: example 2: no tokens", step_of, of { ids = {} })
    refused("data.step: example 2: no tokens", step_of, of { documents = {} })
    refused("data.step: example 2: number -1, expected none below 0", step_of,
      of { ids = { 1 }, number = -1 })
    refused("data.step: example 2: family -2, expected none below 0", step_of,
      of { ids = { 1 }, family = -2 })
    refused("option 'ids' is missing", step_of, of { label = { 1 } })
    refused("unknown option 'label'", step_of, of { ids = { 1 }, label = { 1 } })
    refused("unknown option 'ids'", step_of, of { ids = { 1 }, documents = { { ids = { 1 } } } })
    refused("micro_batch_tokens: expected at least 1, got 0", step_of,
      { micro_batch_tokens = 0, examples = {} })
    refused("option 'micro_batch_tokens' is missing", step_of, { examples = {} })
    same(step_of { micro_batch_tokens = 1, examples = {} }:size(), 0)
  )lua"),
            "");
}

}  // namespace
}  // namespace moonring::lua
