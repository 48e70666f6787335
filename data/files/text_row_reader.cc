#include "data/files/text_row_reader.h"

#include "base/status/status_macros.h"

namespace moonring::data {

absl::Status TextRowReader::Seek(const State& state) {
  RETURN_IF_ERROR(file_->Seek(state.position));
  rows_ = state.rows;
  ended_ = state.ended;
  return absl::OkStatus();
}

}  // namespace moonring::data
