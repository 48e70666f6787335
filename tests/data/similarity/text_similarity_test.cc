// Words equal those of jieba 0.42.1, ROUGE that of rouge-chinese 1.0.3, BLEU that of nltk 3.9.2,
// and the four scores those of ComputeSimilarity of LLaMA-Factory 0.9.5 (tests/golden/similarity).

#include "data/similarity/text_similarity.h"

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/similarity/bleu.h"
#include "data/similarity/rouge.h"
#include "data/similarity/word_list.h"
#include "data/similarity/word_segmenter.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using nlohmann::json;

class TextSimilarityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const WordList> words,
                         WordList::Read("data/similarity/words.txt"));
    segmenter_ = std::make_unique<WordSegmenter>(words);
  }

  static json Golden(const std::string& name) {
    std::ifstream file("tests/golden/similarity/" + name);
    return json::parse(file);
  }

  std::unique_ptr<WordSegmenter> segmenter_;
};

TEST_F(TextSimilarityTest, WordsAreJiebas) {
  const json texts = Golden("words.json");
  ASSERT_GE(texts.size(), 700);
  for (const json& each : texts) {
    const std::string text = each.at("text");
    const auto words = segmenter_->Cut(text);
    EXPECT_EQ(words, each.at("words").get<std::vector<std::string>>()) << text;
  }
}

TEST_F(TextSimilarityTest, MalformedBytesAreReplaced) {
  EXPECT_EQ(segmenter_->Cut("清华\xE5\xA4"), (std::vector<std::string>{"清华", "\uFFFD"}));
}

TEST_F(TextSimilarityTest, ScoresAreThePackages) {
  const json pairs = Golden("pairs.json");
  ASSERT_GE(pairs.size(), 60);
  int refused = 0;
  for (const json& each : pairs) {
    const std::string prediction = each.at("prediction"), label = each.at("label");
    SCOPED_TRACE(prediction + " | " + label);
    EXPECT_NEAR(Bleu4(prediction, label), each.at("bleu").get<double>(), 1e-12);
    const RougeScores rouge = Rouge(segmenter_->Cut(prediction), segmenter_->Cut(label));
    if (each.contains("rouge")) {
      EXPECT_NEAR(rouge.rouge_1, each.at("rouge").at("rouge-1").get<double>(), 1e-12);
      EXPECT_NEAR(rouge.rouge_2, each.at("rouge").at("rouge-2").get<double>(), 1e-12);
      EXPECT_NEAR(rouge.rouge_l, each.at("rouge").at("rouge-l").get<double>(), 1e-12);
    } else {
      EXPECT_EQ(rouge.rouge_1 + rouge.rouge_2 + rouge.rouge_l, 0.0);
    }
    refused += each.contains("error");
    if (!each.contains("scores")) continue;
    const TextSimilarity scores = CompareTexts(*segmenter_, prediction, label);
    const json& wanted = each.at("scores");
    EXPECT_NEAR(scores.bleu_4, wanted.at("bleu-4").get<double>(), 1e-9);
    EXPECT_NEAR(scores.rouge_1, wanted.at("rouge-1").get<double>(), 1e-9);
    EXPECT_NEAR(scores.rouge_2, wanted.at("rouge-2").get<double>(), 1e-9);
    EXPECT_NEAR(scores.rouge_l, wanted.at("rouge-l").get<double>(), 1e-9);
  }
  EXPECT_EQ(refused, 0);
}

}  // namespace
}  // namespace moonring::data
