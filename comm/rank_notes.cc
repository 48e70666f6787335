#include "comm/rank_notes.h"

#include <chrono>

#include "base/status/torch_status.h"

namespace moonring::comm {

RankNotes::RankNotes(const c10::intrusive_ptr<c10d::Store>& store) : store_(store->clone()) {
  store_->setTimeout(std::chrono::seconds(5));
}

absl::Status RankNotes::Leave(const std::string& key, const std::string& text) {
  return base::TryTorch([&] { store_->set(key, text); });
}

std::optional<std::string> RankNotes::Take(const std::string& key) {
  std::optional<std::string> text;
  (void)base::TryTorch([&] {
    if (!store_->check({key})) return;
    text = store_->get_to_str(key);
    store_->deleteKey(key);
  });
  return text;
}

}  // namespace moonring::comm
