#include "data/example_builder.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/packed_rows.h"

namespace moonring::data {
namespace {

// Maximum number of kinds of noted rows in a report. A kind may contain the name of a field in the
// data, so the number of kinds is otherwise unbounded.
constexpr size_t kMostNoted = 50;
constexpr absl::string_view kMoreNoted = "with more of these kinds (the first 50 are above)";

// Combines the prompt of one turn with the answer of another. The tokens at the end of a prompt
// that belong to its answer (`opening`) go with the answer.
EncodedTurn Mismatch(const EncodedTurn& asked, const EncodedTurn& answered) {
  EncodedTurn turn = {{asked.prompt.begin(), asked.prompt.end() - asked.opening},
                      answered.response,
                      answered.opening};
  turn.prompt.insert(turn.prompt.end(), answered.prompt.end() - answered.opening,
                     answered.prompt.end());
  return turn;
}

}  // namespace

ExampleBuilder::ExampleBuilder(const DatasetOptions& options, const ChatTemplate& chat_template)
    : options_(options),
      template_(chat_template),
      learn_{.cutoff_len = options.cutoff_len,
             .train_on_prompt = options.train_on_prompt,
             .mask_history = options.mask_history} {
  if (template_.spec().efficient_eos) learn_.efficient_eos = template_.eos();
  prepared_.report.packs = options.joins_texts() || options.packs_rows();
  prepared_.report.prompts = options.stage == Stage::kPrompts;
}

void ExampleBuilder::Add(EncodedRow row) {
  DatasetReport& report = prepared_.report;
  ++report.rows;
  if (!row.skipped.empty()) CountRow(row.skipped, row.where, report.skipped);
  if (options_.one_turn) prepared_.uses.push_back({.where = row.where, .left_out = row.skipped});
  if (row.skipped.empty()) {
    for (const std::string& what : row.noted) {
      CountRow(report.noted.size() < kMostNoted ? absl::string_view(what) : kMoreNoted, row.where,
               report.noted);
    }
    report.longest = std::max(report.longest, row.whole_tokens);
    ++report.lengths[absl::bit_width(static_cast<uint64_t>(row.whole_tokens)) - 1];
  }
  if (options_.stage == Stage::kPretraining || options_.stage == Stage::kFeedback ||
      options_.packs_rows()) {
    batch_.push_back(std::move(row));
    if (static_cast<int64_t>(batch_.size()) == options_.preprocessing_batch_size) BuildBatch();
  } else if (!row.documents.empty()) {
    PushGiven(row);
  } else if (row.skipped.empty() && options_.stage == Stage::kPrompts) {
    PushPrompt(row);
  } else if (row.skipped.empty() && options_.stage == Stage::kSupervised && !options_.one_turn) {
    Push({.documents = {BuildConversation(row.turns, learn_).document}}, row);
  } else if (row.skipped.empty()) {
    const EncodedTurn& turn = row.turns[0];
    const TurnLengths kept =
        FitTurn(turn.prompt.size(), std::max(turn.response.size(), row.rejected.size()),
                options_.cutoff_len);
    if (options_.one_turn) {
      const auto prompt = static_cast<int64_t>(turn.prompt.size()),
                 answer = static_cast<int64_t>(turn.response.size());
      prepared_.uses.back().prompt_cut = prompt - std::min(kept.prompt, prompt);
      prepared_.uses.back().answer_cut = answer - std::min(kept.response, answer);
    }
    std::vector<Document> documents = {AnswerDocument(turn, turn.response, kept)};
    if (options_.stage == Stage::kPairs)
      documents.push_back(AnswerDocument(turn, row.rejected, kept));
    Push({.documents = std::move(documents)}, row);
  }
}

void ExampleBuilder::AddPrepared(Example example, const std::string& where) {
  if (prepared_.report.examples == 0) first_example_ = where;
  prepared_.report.CountPrepared(example);
  anything_to_predict_ = true;  // the program that wrote the examples checked this
  prepared_.examples.push_back(std::move(example));
}

void ExampleBuilder::BuildBatch() {
  if (options_.joins_texts()) {
    BuildBlocks();
  } else if (options_.stage == Stage::kFeedback) {
    BuildFeedback();
  } else if (options_.packs_rows()) {
    BuildRows();
  } else {
    for (EncodedRow& row : batch_) {
      if (!row.skipped.empty()) continue;
      if (!row.documents.empty()) {
        PushGiven(row);
        continue;
      }
      std::vector<int32_t>& ids = row.turns[0].response;
      ids.resize(std::min<size_t>(ids.size(), options_.cutoff_len));
      Push({.documents = {TextDocument(std::move(ids))}}, row);
    }
  }
  batch_.clear();
}

void ExampleBuilder::BuildBlocks() {
  std::vector<int32_t> block;
  for (const EncodedRow& row : batch_) {
    if (!row.skipped.empty()) continue;
    for (const int32_t id : row.turns[0].response) {
      block.push_back(id);
      if (static_cast<int64_t>(block.size()) < options_.cutoff_len) continue;
      const Tokenizer& tokenizer = template_.tokenizer();
      if (tokenizer.adds_bos() && tokenizer.bos().has_value()) block[0] = *tokenizer.bos();
      Push({.documents = {TextDocument(std::move(block))}}, row);
      block.clear();
    }
  }
  prepared_.report.left_over += static_cast<int64_t>(block.size());
}

void ExampleBuilder::BuildRows() {
  std::vector<Document> documents;
  for (EncodedRow& row : batch_) {
    if (!row.skipped.empty()) continue;
    if (!row.documents.empty()) {
      Cut(row.documents[0]);
      if (row.whole_tokens > row.documents[0].size()) CountCut(row, row.documents);
      documents.push_back(std::move(row.documents[0]));
      continue;
    }
    BuiltDocument built = BuildConversation(row.turns, learn_);
    if (built.truncated()) CountCut(row, {built.document});
    if (!built.document.ids.empty()) documents.push_back(std::move(built.document));
  }
  for (Example& row : PackRows(std::move(documents), {.capacity = options_.cutoff_len,
                                                     .pad = template_.pad(),
                                                     .neat = options_.neat_packing})) {
    Keep(std::move(row), batch_.front().where);
  }
}

void ExampleBuilder::BuildFeedback() {
  for (size_t i = 0; i < batch_.size(); ++i) {
    EncodedRow& row = batch_[i];
    if (!row.skipped.empty()) continue;
    if (!row.documents.empty()) {
      PushGiven(row);
      continue;
    }
    size_t other = i;
    do other = (other + batch_.size() - 1) % batch_.size();
    while (batch_[other].turns.empty());
    const EncodedTurn& turn = row.turns[0];
    const EncodedTurn mismatched = Mismatch(turn, batch_[other].turns[0]);
    Push({.documents = {AnswerDocument(
                            turn, turn.response,
                            FitTurn(turn.prompt.size(), turn.response.size(), options_.cutoff_len)),
                        AnswerDocument(mismatched, mismatched.response,
                                       FitTurn(mismatched.prompt.size(), mismatched.response.size(),
                                               options_.cutoff_len))},
          .desirable = row.desirable},
         row);
  }
}

Document ExampleBuilder::TextDocument(std::vector<int32_t> ids) const {
  Document document{.ids = std::move(ids)};
  document.labels = document.ids;
  std::replace(document.labels.begin(), document.labels.end(), template_.pad(), kNotLearnt);
  return document;
}

Document ExampleBuilder::AnswerDocument(const EncodedTurn& turn, const std::vector<int32_t>& answer,
                                        TurnLengths kept) const {
  const auto end = answer.begin() + std::min<int64_t>(kept.response, answer.size());
  Document document;
  document.ids.assign(turn.prompt.begin(), turn.prompt.begin() + kept.prompt);
  document.labels.assign(kept.prompt, kNotLearnt);
  document.ids.insert(document.ids.end(), answer.begin(), end);
  document.labels.insert(document.labels.end(), answer.begin(), end);
  return document;
}

void ExampleBuilder::Push(Example example, const EncodedRow& row) {
  if (absl::c_any_of(example.documents,
                     [](const Document& document) { return document.ids.empty(); })) {
    constexpr char kEmpty[] = "without any token";
    CountRow(kEmpty, row.where, prepared_.report.skipped);
    if (options_.one_turn) prepared_.uses.back().left_out = kEmpty;
    return;
  }
  if (row.whole_tokens > options_.cutoff_len && !options_.joins_texts())
    CountCut(row, example.documents);
  Keep(std::move(example), row.where);
}

void ExampleBuilder::PushGiven(EncodedRow& row) {
  if (!row.skipped.empty()) return;
  const int64_t whole = row.documents[0].size();
  for (Document& document : row.documents) Cut(document);
  if (options_.one_turn) prepared_.uses.back().answer_cut = whole - row.documents[0].size();
  Push({.documents = std::move(row.documents), .desirable = row.desirable, .row = row.row}, row);
}

void ExampleBuilder::PushPrompt(EncodedRow& row) {
  Document prompt{.ids = std::move(row.turns[0].prompt)};
  prompt.labels.assign(prompt.ids.size(), kNotLearnt);
  Cut(prompt);
  Push({.documents = {std::move(prompt)}, .row = row.row}, row);
}

void ExampleBuilder::Cut(Document& document) const {
  const int64_t over = document.size() - options_.cutoff_len;
  if (over <= 0) return;
  if (options_.stage == Stage::kPrompts) {
    document.ids.erase(document.ids.begin(), document.ids.begin() + over);
    document.labels.erase(document.labels.begin(), document.labels.begin() + over);
    return;
  }
  document.ids.resize(options_.cutoff_len);
  document.labels.resize(options_.cutoff_len);
}

void ExampleBuilder::CountCut(const EncodedRow& row, const std::vector<Document>& documents) {
  ++prepared_.report.truncated;
  if (options_.stage == Stage::kPretraining) return;  // a truncated text keeps all its labels
  if (row.turns.empty()) return;  // token ids: labels are the data author's choice
  size_t whole = row.rejected.size(), kept = 0;
  for (size_t i = 0; i < row.turns.size(); ++i) {
    const EncodedTurn& turn = row.turns[i];
    if (learn_.train_on_prompt && turn.learns_prompt) whole += turn.prompt.size();
    if (turn.learns_response && (!learn_.mask_history || i + 1 == row.turns.size()))
      whole += turn.response.size();
  }
  const size_t trained = options_.stage == Stage::kFeedback ? 1 : documents.size();
  for (size_t d = 0; d < trained; ++d) {
    kept +=
        absl::c_count_if(documents[d].labels, [](int32_t label) { return label != kNotLearnt; });
  }
  prepared_.report.starved += kept < whole && (10 * kept < whole || kept < 4);
}

void ExampleBuilder::Keep(Example example, const std::string& where) {
  if (prepared_.report.examples++ == 0) first_example_ = where;
  if (prepared_.report.CountTokens(example)) anything_to_predict_ = true;
  prepared_.examples.push_back(std::move(example));
}

void ExampleBuilder::NoteOneKindOfTag() {
  const int64_t desired = absl::c_count_if(
      prepared_.examples, [](const Example& example) { return example.desirable.value_or(false); });
  const int64_t all = static_cast<int64_t>(prepared_.examples.size());
  if (options_.stage != Stage::kFeedback || (desired != 0 && desired != all)) return;
  prepared_.report.noted.push_back(
      {.what = desired == 0 ? "undesired, and none desired (kto needs both kinds)"
                            : "desired, and none undesired (kto needs both kinds)",
       .count = all,
       .first = first_example_});
}

void ExampleBuilder::Note(CountedRows rows) { prepared_.report.noted.push_back(std::move(rows)); }

std::vector<Example> ExampleBuilder::EndBatch() {
  BuildBatch();
  return std::exchange(prepared_.examples, {});
}

absl::Status ExampleBuilder::Check() const {
  const DatasetReport& report = prepared_.report;
  if (report.examples == 0) {
    std::string reasons;
    for (const CountedRows& skipped : report.skipped)
      absl::StrAppend(&reasons, "; ", skipped.count, " ", skipped.what, ", first at ",
                      skipped.first);
    if (report.left_over > 0)
      absl::StrAppend(&reasons, "; their ", report.left_over,
                      " tokens fill no block of cutoff_len ", options_.cutoff_len);
    return absl::InvalidArgumentError(
        absl::StrCat("dataset: none of ", report.rows, " rows gives an example", reasons));
  }
  if (anything_to_predict_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cutoff_len ", options_.cutoff_len,
                   " is too small: it leaves no token to train on in any of ", report.examples,
                   " examples (the longest has ", report.longest, " tokens)"));
}

absl::StatusOr<PreparedDataset> ExampleBuilder::Finish() && {
  BuildBatch();
  RETURN_IF_ERROR(Check());
  NoteOneKindOfTag();
  return std::move(prepared_);
}

}  // namespace moonring::data
