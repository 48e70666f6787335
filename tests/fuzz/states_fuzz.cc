// Fuzzes the saved states of the data's position and of the objective, which a resumed run loads
// from a checkpoint. (The tensors next to them are safetensors.)
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "data/files/row_source.h"
#include "data/steps/step_batches.h"
#include "objectives/preference.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace moonring;
  static const fuzz::InputFolder folder;
  static const std::string rows =
      folder.Write("rows.jsonl", "{\"a\": 1}\n{\"a\": 2}\n{\"a\": 3}\n");
  const std::string text(reinterpret_cast<const char*>(data), size);

  const auto batches = data::StepBatches::Create({.examples = 10, .examples_per_step = 4});
  if (!batches.ok()) __builtin_trap();
  if ((*batches)->LoadState(text).ok()) {
    const auto batch = (*batches)->Next();
    if (!batch.ok() || !batch->has_value() || (*batch)->examples.empty() ||
        (*batch)->examples.size() > 4)
      __builtin_trap();
  }

  const auto preference = objectives::Preference::Create({.loss = "kto_pair"});
  if (preference.ok() && (*preference)->LoadState(text).ok() &&
      !(*preference)->LoadState((*preference)->State()).ok())
    __builtin_trap();

  // A state contains the names of its files, whose folder differs between processes.
  nlohmann::json state = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!state.is_object()) return 0;
  state["files"] = {rows};
  const auto source = data::RowSource::Open({rows});
  if (!source.ok()) __builtin_trap();
  if (!(*source)
           ->LoadState(state.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))
           .ok())
    return 0;
  for (int i = 0; i < 4; ++i) {
    const auto row = (*source)->Next();
    if (!row.ok() || !row->has_value()) return 0;
  }
  return 0;
}
