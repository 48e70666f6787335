// The configurations in tests/golden with which LLaMA-Factory was run, and the tokenizer with which
// their data was prepared.
#ifndef MOONRING_TESTS_DATA_GOLDEN_CONFIG_H_
#define MOONRING_TESTS_DATA_GOLDEN_CONFIG_H_

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/dataset_options.h"
#include "data/text/tokenizer.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_tokenizer.h"
#include "tests/data/text/named_templates.h"
#include "tests/testing/status_matchers.h"

namespace moonring::testing {

// The tokenizer of SmolLM2, from the file that the quickstart uses.
inline std::shared_ptr<const data::Tokenizer> SmolLM2() {
  static const std::shared_ptr<const data::Tokenizer> tokenizer = [] {
    const auto file = model::GgufFile::Open("external/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
    EXPECT_OK(file);
    const auto files = model::TokenizerFilesFromGguf(**file);
    EXPECT_OK(files);
    return *data::Tokenizer::FromJson(files->at("tokenizer.json"),
                                      files->at("tokenizer_config.json"), "SmolLM2");
  }();
  return tokenizer;
}

inline std::vector<std::string> Names(const nlohmann::json& list) {
  std::vector<std::string> names;
  std::stringstream text(list.get<std::string>());
  for (std::string name; std::getline(text, name, ',');) names.push_back(name);
  return names;
}

inline data::DatasetOptions OptionsOf(const nlohmann::json& config,
                                      const std::string& dataset_dir) {
  data::DatasetOptions options{.dataset_dir = dataset_dir,
                               .chat_template = NamedTemplate(config["template"])};
  for (const auto& [key, value] : config.items()) {
    if (key == "dataset") {
      options.names = Names(value);
    } else if (key == "stage") {
      options.stage = *data::ParseStage(value.get<std::string>());
    } else if (key == "packing") {
      options.packing = value.get<bool>();
    } else if (key == "neat_packing") {
      options.neat_packing = value;
    } else if (key == "preprocessing_batch_size") {
      options.preprocessing_batch_size = value;
    } else if (key == "cutoff_len") {
      options.cutoff_len = value;
    } else if (key == "max_samples") {
      options.max_samples = value.get<int64_t>();
    } else if (key == "train_on_prompt") {
      options.train_on_prompt = value;
    } else if (key == "mask_history") {
      options.mask_history = value;
    } else if (key == "default_system") {
      options.default_system = value.get<std::string>();
    } else if (key == "seed") {
      options.seed = value;
    } else if (key == "mix_strategy") {
      options.mix.strategy = *data::ParseMixStrategy(value.get<std::string>());
    } else if (key == "interleave_probs") {
      for (const std::string& probability : Names(value))
        options.mix.probabilities.push_back(std::stod(probability));
    } else {
      EXPECT_THAT(key, ::testing::AnyOf("template", "val_size", "eval_dataset", "buffer_size",
                                        "dataloader_num_workers", "per_device_train_batch_size"));
    }
  }
  if (options.packs_rows()) --options.cutoff_len;
  return options;
}

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_DATA_GOLDEN_CONFIG_H_
