// User-defined data: training on rows from a Lua source is bit-identical to training on the same
// rows from a file, on any number of ranks; errors of a source are reported with the row; and
// custom orders and micro-batches.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CustomDataTest : public Workplace {
 protected:
  CustomDataTest() {
    WriteModel("model");
    WriteConfig("max_steps: -1\nnum_train_epochs: 2\noverwrite_output_dir: true");
  }

  // Returns the loss, gradient norm and token count of each step.
  std::vector<std::vector<double>> Steps(const std::string& out) const {
    std::vector<std::vector<double>> steps;
    for (const json& line : ReadJsonLines(Path(out + "/trainer_log.jsonl"))) {
      if (line.contains("loss"))
        steps.push_back({line.at("loss"), line.at("grad_norm"), line.at("tokens")});
    }
    return steps;
  }

  // Removes the data set from config.yaml.
  void DropDataset() const {
    const std::string text = ReadText(Path("config.yaml"));
    const size_t at = text.find("dataset: rows\n");
    Write("own.yaml", text.substr(0, at) + text.substr(at + 14));
  }

  // Trains with a Lua source instead of the data set of config.yaml.
  std::vector<std::vector<double>> Train(const std::string& out, const Words& more,
                                         const Words& options = {}) const {
    const CommandResult result =
        Run(options + Words{"train", "own.yaml", "output_dir=" + out} + more);
    EXPECT_THAT(result, Succeeds());
    return Steps(out);
  }

  static void ExpectNear(const std::vector<std::vector<double>>& a,
                         const std::vector<std::vector<double>>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t k = 0; k < a.size(); ++k) {
      EXPECT_NEAR(a[k][0] / b[k][0], 1, 1e-5) << k;
      EXPECT_NEAR(a[k][1] / b[k][1], 1, 1e-5) << k;
      EXPECT_EQ(a[k][2], b[k][2]) << k;
    }
  }

  // Returns Lua code that defines the list `rows`, the rows of data/rows.jsonl.
  std::string RowsInLua() const {
    std::string text = "local json = require('moonring').system.json_decode\nlocal rows = {\n";
    for (const json& row : ReadJsonLines(Path("data/rows.jsonl")))
      text += "json [==[" + row.dump() + "]==],\n";
    return text + "}\n";
  }
};

// Sources give rows, messages or token ids. They are a table with a state, a function that returns
// one, a function, or a coroutine, and are read as a whole or as a stream. The numbers always equal
// those of the file.
TEST_F(CustomDataTest, ASourceTrainsAsItsRowsDoFromAFile) {
  DropDataset();
  ASSERT_THAT(Run({"train", "config.yaml", "output_dir=file", "disable_shuffling=true"}),
              Succeeds());
  const std::vector<std::vector<double>> file = Steps("file");
  ASSERT_EQ(file.size(), 6);  // ten rows in steps of four, twice
  ASSERT_THAT(Run({"preprocess", "config.yaml", "out=ids.jsonl"}), Succeeds());

  const std::string rows = RowsInLua();
  const std::string pieces = rows + R"lua(
    local at = 0
    local function next()
      at = at + 1
      return rows[at]
    end
  )lua";
  const std::map<std::string, std::string> sources = {
      {"file.lua", "return require('moonring').data.rows 'data/rows.jsonl'"},
      {"named.lua", "return require('moonring').data.rows('rows', { dataset_dir = 'data' })"},
      {"ids.lua", "return require('moonring').data.rows 'ids.jsonl'"},
      {"table.lua", pieces + R"lua(
         return { next = next, state = function() return { at = at } end,
           load_state = function(state) at = state.at end })lua"},
      {"maker.lua", "return function(config, tokenizer)\n" + pieces + R"lua(
           assert(config.cutoff_len == 256 and tokenizer:vocab_size() > 0)
           return next
         end)lua"},
      {"messages.lua", "return function()\n" + pieces + R"lua(
           return function()
             local row = next()
             if not row then return nil end
             local asked = row.instruction .. (row.input ~= "" and "\n" .. row.input or "")
             local list = { { role = "user", content = asked },
               { role = "assistant", content = row.output } }
             return at % 2 == 0 and list or { messages = list }
           end
         end)lua"},
      {"coroutine.lua", rows + R"lua(
         return coroutine.create(function()
           for pass = 1, 2 do
             for i, row in ipairs(rows) do coroutine.yield(row) end
           end
         end))lua"},
  };
  for (const auto& [name, text] : sources) {
    SCOPED_TRACE(name);
    Write(name, text);
    const std::string out = "of_" + name.substr(0, name.find('.'));
    if (out != "of_coroutine") {  // a coroutine's twenty rows are a single epoch
      EXPECT_EQ(Train(out, {"data_source=" + name}), file);
      EXPECT_EQ(Train(out + "_used", {"data_source=" + name, "max_steps=6"}), file);
    } else {
      const auto steps =
          Train(out, {"data_source=" + name, "max_steps=9", "lr_scheduler_type=constant"});
      ASSERT_EQ(steps.size(), 5);  // twenty rows, and it cannot begin again
      EXPECT_EQ(std::vector<double>(steps[0]).at(2), file[0].at(2));
    }
  }
}

// As a stream and as a whole, with sp 2 and with dp 2.
TEST_F(CustomDataTest, RanksChangeNothing) {
  DropDataset();
  Write("rows.lua", "return require('moonring').data.rows 'data/rows.jsonl'");
  for (const std::string& steps : {std::string("max_steps=-1"), std::string("max_steps=5")}) {
    const Words words = {"data_source=rows.lua", steps};
    const auto alone = Train("alone" + steps, words);
    ASSERT_FALSE(alone.empty());
    ExpectNear(Train("sp2" + steps, words + Words{"sequence_parallel_size=2"}), alone);
    ExpectNear(Train("dp2" + steps, words + Words{"gradient_accumulation_steps=1"}, {"-n", "2"}),
               alone);
  }
}

// Pairs, kto rows and texts with column descriptions, and packed rows: preprocessed in batches,
// read as a whole or as a stream.
TEST_F(CustomDataTest, EveryStage) {
  const std::string home = Runfile("tests/golden/stages");
  struct Case {
    std::string stage, name;
    Words more;
  };
  const Case cases[] = {{"dpo", "pairs", {}},
                        {"rm", "pairs", {}},
                        {"kto", "judged", {"preprocessing_batch_size=7"}},
                        {"pt", "texts", {"preprocessing_batch_size=5", "cutoff_len=32"}},
                        {"sft", "talks", {"preprocessing_batch_size=6", "neat_packing=true"}}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.stage);
    Write("source.lua", "return require('moonring').data.rows('" + each.name +
                            "', { dataset_dir = '" + home + "/data' })");
    const Words common = Words{"train",
                               "model_name_or_path=" + home + "/model",
                               "stage=" + each.stage,
                               "finetuning_type=full",
                               "template=chatml",
                               "cutoff_len=160",
                               "per_device_train_batch_size=2",
                               "gradient_accumulation_steps=2",
                               "learning_rate=1e-3",
                               "logging_steps=1",
                               "save_strategy=no"} +
                         each.more;
    const Words file = {"dataset=" + each.name, "dataset_dir=" + home + "/data",
                        "disable_shuffling=true"};
    ASSERT_THAT(Run(common + file + Words{"max_steps=7", "output_dir=file" + each.stage}),
                Succeeds());
    const auto wanted = Steps("file" + each.stage);
    const Words own = {"data_source=source.lua", "max_steps=7"};
    ASSERT_THAT(Run(common + own + Words{"output_dir=used" + each.stage}), Succeeds());
    EXPECT_EQ(Steps("used" + each.stage), wanted);
    ASSERT_THAT(Run(common + own + Words{"streaming=false", "output_dir=whole" + each.stage}),
                Succeeds());
    EXPECT_EQ(Steps("whole" + each.stage), wanted);
  }
}

// Rows with the column names that Moonring itself uses: pairs and kto rows as messages.
TEST_F(CustomDataTest, PairsAndJudgedAnswersAsMessages) {
  DropDataset();
  Write("pairs.lua", R"lua(
    local at = 0
    return function() return function()
      at = at + 1
      if at > 6 then return nil end
      return { messages = { { role = "user", content = "Which " .. at } }, chosen = "This " .. at,
        rejected = { role = "assistant", content = "That" } }
    end end)lua");
  Write("judged.lua", R"lua(
    local at = 0
    return function() return function()
      at = at + 1
      if at > 6 then return nil end
      return { messages = { { role = "user", content = "Which " .. at },
        { role = "assistant", content = "This " .. at } }, kto_tag = at % 2 == 0 }
    end end)lua");
  const auto pairs = Train("pairs", {"data_source=pairs.lua", "stage=dpo", "num_train_epochs=1"});
  ASSERT_EQ(pairs.size(), 2);
  EXPECT_NEAR(pairs[0][0], 0.6931471805599453, 1e-6);  // ln 2: the reference is the model itself
  EXPECT_EQ(Train("judged", {"data_source=judged.lua", "stage=kto", "num_train_epochs=1"}).size(),
            2);
}

TEST_F(CustomDataTest, RefusesInvalidSources) {
  DropDataset();
  struct Case {
    std::string text, message;
    Words more = {};
  };
  const std::string row = R"({ instruction = "a", output = "b" })";
  const Case cases[] = {
      {"return 7",
       "data_source: s.lua: expected a source (a table with 'next', a coroutine), or a "
       "function of (config, tokenizer) that makes it, got a number"},
      {"return", "data_source: s.lua: it returns nothing"},
      {"x x", "data_source: s.lua:1: "},
      {"error 'mine'", "data_source: s.lua:1: mine"},
      {"return {}", "data_source: s.lua: data.source: option 'next' is missing"},
      {"return { next = print, sate = print }",
       "data_source: s.lua: data.source: unknown option 'sate' (did you mean 'state'?)"},
      {"return { next = print, state = print }",
       "expected both 'state' and 'load_state', or neither"},
      {"return function() error 'mine' end", "data_source: s.lua:1: mine"},
      {"return { next = function() end }", "s.lua: it gives no row"},
      {"return { next = function() error 'mine' end }", "s.lua (row 1): next(): s.lua:1: mine"},
      {"return { next = function() return 7 end }",
       "s.lua (row 1): next(): expected a row, a table or a text, or nil at the end, got a number"},
      {"local at = 0 return { next = function() at = at + 1 return at < 3 and " + row +
           " or { foo = 1, bar = 2 } end }",
       "s.lua (row 3): expected 'messages', 'instruction' and 'output', or 'input_ids' and "
       "'labels', "
       "got 'bar', 'foo'"},
      {"return { next = function() return { 1, 2 } end }",
       "s.lua (row 1): is a list, expected one of messages {role, content}, or a table with"},
      {"return { next = function() return { instruction = print, output = 'b' } end }",
       "s.lua (row 1): expected texts, numbers, booleans and tables of these: cannot write a "
       "function"},
      {"return { next = function() return { instruction = 1, output = 'b' } end }",
       "s.lua (row 1): 'instruction' must be a string, got number"},
      {"return { next = function() return { input_ids = { 1, 2 }, labels = { 1 } } end }",
       "s.lua (row 1): has 2 numbers in 'input_ids' and 1 in 'labels'"},
      {"return { next = function() return { input_ids = { 1, 99999 } } end }",
       "s.lua (row 1): 'input_ids' holds 99999, expected 0 to 674"},
      {"return { next = function() return { input_ids = { 1, 1.5 } } end }",
       "s.lua (row 1): 'input_ids' must be a list of whole numbers, got 1.5 in it"},
      {"return { next = function() return { input_ids = { 1 }, label = { 1 } } end }",
       "s.lua (row 1): token ids with the key 'label': this stage requires input_ids, labels"},
      {"return { next = function() return " + row +
           " end, state = function() return { print } end, load_state = print }",
       "s.lua: state(): expected numbers, texts, booleans and tables of these: cannot write a "
       "function"},
      {"return { next = function() return " + row + " end, columns = { prompt = 'q' } }",
       "'columns' names no 'response'"},
      {"return { next = print }", "data_source and dataset exclude one another", {"dataset=rows"}},
      {"return { next = print }", "val_size: a data source holds no rows out", {"val_size=2"}},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.text);
    Write("s.lua", each.text);
    EXPECT_THAT(
        Run(Words{"train", "own.yaml", "data_source=s.lua"} + each.more),
        FailsWith(2, HasSubstr(each.message.find("own.yaml: ") == 0 ? each.message.substr(10)
                                                                    : each.message)));
  }
  Write("s.lua", "return { next = function() return { instruction = 'a' } end }");
  EXPECT_THAT(Run({"train", "own.yaml", "data_source=s.lua", "max_steps=2"}).err,
              HasSubstr("none of 10000 rows gives an example; 10000 no 'output', first at s.lua "
                        "(row 1)"));
  EXPECT_THAT(Run({"train", "own.yaml", "data_source=none.lua"}),
              FailsWith(2, HasSubstr("data_source: cannot read none.lua")));
  EXPECT_THAT(Run({"train", "own.yaml", "data_source=none.txt"}),
              FailsWith(2, HasSubstr("data_source: expected the path of a .lua file")));
}

// If a source fails, or gives an invalid row, after some steps, the exit code is 1.
TEST_F(CustomDataTest, AWrongRowEndsTheRun) {
  DropDataset();
  Write("late.lua", R"lua(
    local at = 0
    return { next = function()
      at = at + 1
      if at == 6 then return { instruction = "a", output = {} } end
      return { instruction = "a " .. at, output = "b" }
    end })lua");
  const CommandResult result = Run({"train", "own.yaml", "data_source=late.lua", "max_steps=4"});
  EXPECT_EQ(result.exit_code, 1) << result.Describe();
  EXPECT_THAT(result.err, HasSubstr("late.lua (row 6): 'output' must be a string, got array"));
}

TEST_F(CustomDataTest, NamesRanksThatAreGivenOtherRows) {
  DropDataset();
  const std::string begin = R"lua(
    local rank, at = tonumber(os.getenv "RANK"), 0
    return { next = function()
      at = at + 1
  )lua";
  const std::string end = R"lua(
      return { instruction = "a " .. at, output = "b" }
    end })lua";
  const auto run = [&](const std::string& text, const Words& more) {
    Write("s.lua", begin + text + end);
    return Run(Words{"-n", "3", "train", "own.yaml", "data_source=s.lua",
                     "gradient_accumulation_steps=1"} +
               more);
  };
  // A step takes six rows, so the seventh is read in the second step.
  const CommandResult late =
      run("if at == 7 and rank == 1 then at = 70 end", {"max_steps=3", "logging_steps=1"});
  EXPECT_EQ(late.exit_code, 1) << late.Describe();
  EXPECT_THAT(late.err, AllOf(HasSubstr("s.lua (row 7): the source gives ranks other rows, by "
                                        "their digests: ranks 0, 2 have "),
                              HasSubstr("; rank 1 has "),
                              HasSubstr("; it must give the same on every rank")));
  EXPECT_THAT(late.err, Not(HasSubstr("step 2/3")));
  const CommandResult first = run("if at == 2 and rank == 2 then return nil end", {"max_steps=3"});
  EXPECT_EQ(first.exit_code, 2) << first.Describe();  // nothing was trained yet
  EXPECT_THAT(first.err, HasSubstr("s.lua (row 2)"));
  EXPECT_THAT(first.err, HasSubstr("rank 2 has none"));
  const CommandResult whole =
      run("if at > (rank == 0 and 8 or 9) then return nil end", {"max_steps=-1"});
  EXPECT_EQ(whole.exit_code, 2) << whole.Describe();
  EXPECT_THAT(whole.err, HasSubstr("s.lua (row 9)"));
  const CommandResult fails = run("if at == 2 and rank == 1 then error 'mine' end", {});
  EXPECT_EQ(fails.exit_code, 2) << fails.Describe();
  EXPECT_THAT(fails.err, HasSubstr("rank 1: s.lua (row 2): next(): s.lua:5: mine"));
}

TEST_F(CustomDataTest, ASandboxedRunConfinesTheSource) {
  DropDataset();
  const Words words = {"--sandbox", "train", "own.yaml", "data_source=s.lua"};
  Write("s.lua", "return { next = function() return { instruction = 'a', output = 'b' } end }");
  EXPECT_THAT(Run(words + Words{"max_steps=2"}), Succeeds());
  Write("s.lua", "return { next = function() os.execute 'true' end }");
  EXPECT_THAT(Run(words + Words{"output_dir=two"}),
              FailsWith(2, HasSubstr("--sandbox: there is no os.execute")));
}

TEST_F(CustomDataTest, ExamplesOnRanks) {
  const Words begin = {"data=rows", "model=model", "template=smollm2", "batch=4", "cutoff=256"};
  const auto curriculum = [&](const std::string& out, const Words& options, const Words& more) {
    const CommandResult result =
        Run(options + Words{Runfile("scripts/examples/curriculum.lua"), "out=" + out} + begin +
            Words{"epochs=2"} + more);
    EXPECT_THAT(result, Succeeds());
    return Steps(out);
  };
  const auto alone = curriculum("curriculum", {}, {});
  ASSERT_EQ(alone.size(), 6);
  // The first epoch begins with the four shortest rows. The log counts tokens from the start of the
  // run.
  const double steps[] = {alone[0][2], alone[1][2] - alone[0][2], alone[2][2] - alone[1][2]};
  EXPECT_LT(steps[0], steps[1]);
  EXPECT_LT(steps[1] / 4, steps[2] / 2);  // the last one has two
  ExpectNear(curriculum("curriculum_sp", {}, {"sp=2"}), alone);
  ExpectNear(curriculum("curriculum_dp", {"-n", "2"}, {}), alone);
  ExpectNear(curriculum("curriculum_micro", {}, {"micro_tokens=1"}), alone);

  Write("data/more.jsonl", R"({"instruction": "x", "output": "yes"})"
                           "\n"
                           R"({"instruction": "y", "output": "a longer answer"})"
                           "\n");
  const auto source = [&](const std::string& out, const Words& options, const Words& more) {
    const CommandResult result =
        Run(options +
            Words{Runfile("scripts/examples/custom_source.lua"), "model=model", "template=smollm2",
                  "batch=4", "steps=5", "least=4", "data=data/rows.jsonl,data/more.jsonl",
                  "out=" + out} +
            more);
    EXPECT_THAT(result, Succeeds());
    return Steps(out);
  };
  const auto mixed = source("source", {}, {});
  ASSERT_EQ(mixed.size(), 5);
  ExpectNear(source("source_sp", {}, {"sp=2"}), mixed);
  ExpectNear(source("source_dp", {"-n", "2"}, {}), mixed);
}

TEST_F(CustomDataTest, OrdersAndMicroBatches) {
  const std::string begin = R"lua(
    local moonring = require "moonring"
    local run = moonring.run.open(moonring.config.load("config.yaml", { select(2, ...) }), {
  )lua";
  const std::string end = R"lua(
    })
    for step in run:steps() do run:log(run:update(step)) end
    run:finish()
  )lua";
  const auto run = [&](const std::string& options, const std::string& out, const Words& more = {},
                       const Words& of_host = {}) {
    Write("mine.lua", begin + options + end);
    return Run(of_host + Words{"mine.lua", "-", "output_dir=" + out} + more);
  };
  const std::string plain =
      "order = function(lengths) local p = {} for i in ipairs(lengths) do "
      "p[i] = i end return p end";
  ASSERT_THAT(run(plain, "plain"), Succeeds());
  ASSERT_THAT(run("", "unshuffled", {"disable_shuffling=true"}), Succeeds());
  EXPECT_EQ(Steps("plain"), Steps("unshuffled"));

  const std::string pairs = R"lua(micro_batches = function(lengths, budget)
    assert(budget == 512)
    local groups = {}
    for place = 1, #lengths, 2 do
      groups[#groups + 1] = { place, lengths[place + 1] and place + 1 }
    end
    return groups
  end)lua";
  ASSERT_THAT(run(pairs, "pairs", {"disable_shuffling=true"}), Succeeds());
  ExpectNear(Steps("pairs"), Steps("plain"));
  ASSERT_THAT(run(pairs, "pairs_dp", {"disable_shuffling=true", "gradient_accumulation_steps=1"},
                  {"-n", "2"}),
              Succeeds());
  ExpectNear(Steps("pairs_dp"), Steps("plain"));

  const std::pair<std::string, std::string> wrong[] = {
      {"order = function() return 7 end",
       "order: epoch 0: expected each of the places 1 to 10 once, got a number"},
      {"order = function(lengths) return { 1, 2 } end", "got 2 places"},
      {"order = function(l, epoch) local p = {} for i in ipairs(l) do p[i] = i - epoch end return "
       "p end",
       "order: epoch 1: expected each of the places 1 to 10 once, got 0 among them"},
      {"order = function(l) local p = {} for i in ipairs(l) do p[i] = 3 end return p end",
       "got 3 twice"},
      {"order = function() error 'mine' end", "order: epoch 0: mine.lua:4: mine"},
      {"order = 3", "option 'order': expected a function, got a number"},
  };
  for (const auto& [text, message] : wrong) {
    SCOPED_TRACE(text);
    const CommandResult result = run(text, "wrong");
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(message));
  }
  EXPECT_THAT(run(plain + ", data = coroutine.create(function() end)", "wrong",
                  {"dataset=null", "max_steps=2"})
                  .err,
              HasSubstr("order: the examples of a stream are in the order in which they come"));
  const std::pair<std::string, std::string> groups[] = {
      {"micro_batches = function() return 7 end", "expected a list of groups of places"},
      {"micro_batches = function() return { { 0 } } end", "expected places 1 to 4, got 0"},
      {"micro_batches = function() return { { 1, 2, 3 } } end", "place 3 is in no group"},
      {"micro_batches = function() return { { 1, 2, 3, 4 }, { 1 } } end",
       "place 0 is in two groups"},
  };
  for (const auto& [text, message] : groups) {
    SCOPED_TRACE(text);
    EXPECT_THAT(run(text, "wrong").err, HasSubstr(message));
  }
}

}  // namespace
}  // namespace moonring::testing
