// Every key that acts has an effect: runs that differ in its value differ in what is observed of
// them. key_effects.lua makes the runs, in one process, and key_effect_cases.lua has the values.

#include <string>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using ::testing::HasSubstr;

class KeyEffects : public Workplace {
 protected:
  KeyEffects() {
    WriteModel("model");
    WriteConfig();
  }

  // Runs `script` with the cases; `more` are the further arguments of key_effects.lua.
  CommandResult Test(const std::string& script, const Words& more) const {
    return Run(Words{script, Runfile("tests/scripts/key_effect_cases.lua")} + more);
  }
};

TEST_F(KeyEffects, EachKeyThatActsHasOne) {
  EXPECT_THAT(Test(Runfile("tests/scripts/key_effects.lua"), {"once"}), Succeeds());
}

TEST_F(KeyEffects, EachKeyThatActsHasOneAndRunsAreRepeatable) {
  EXPECT_THAT(Test(Runfile("tests/scripts/key_effects.lua"), {"twice"}), Succeeds());
}

// A key that no code reads is found.
TEST_F(KeyEffects, AKeyWithoutAReaderFails) {
  Write("dead.lua",
        "local keys = require 'moonring.config.keys'\n"
        "table.insert(keys[1].rows, { 'dead', 'bool', false, 'nothing' })\n"
        "dofile '" +
            Runfile("tests/scripts/key_effects.lua") + "'\n");
  const CommandResult result = Test("dead.lua", {"once", "dead"});
  EXPECT_EQ(result.exit_code, 1) << result.Describe();
  EXPECT_THAT(result.out, HasSubstr("dead=true: has no effect: train"));
}

}  // namespace
}  // namespace moonring::testing
